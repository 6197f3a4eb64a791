#include <algorithm>
#include <cmath>
#include <numbers>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/diffusion/ddpm.h"

namespace reel::diffusion {

namespace {

// A term of the bound in nats, and its derivative with respect to the log variance of p.
struct Term {
  double value, derivative;
};

// KL(q || p) of two Gaussians whose means differ by `distance`.
Term divergence(double distance, double log_variance_q, double log_variance_p) {
  const double ratio = std::exp(log_variance_q - log_variance_p);
  const double offset = distance * distance * std::exp(-log_variance_p);
  return {0.5 * (-1 + log_variance_p - log_variance_q + ratio + offset), 0.5 * (1 - ratio - offset)};
}

// The tanh approximation of the normal distribution function that the published losses use, and its derivative.
struct Cdf {
  double value, derivative;
};

Cdf normal_cdf(double x) {
  const double k = std::sqrt(2 / std::numbers::pi);
  const double tanh = std::tanh(k * (x + 0.044715 * x * x * x));
  return {0.5 * (1 + tanh), 0.5 * (1 - tanh * tanh) * k * (1 + 3 * 0.044715 * x * x)};
}

// -log of the probability that p gives to the bin around x; the outermost bins reach to infinity. `distance` is x
// minus the mean of p. A probability below 1e-12 counts as 1e-12 and has no gradient.
Term bin_code_length(double x, double distance, double log_variance) {
  const double per_deviation = std::exp(-0.5 * log_variance);
  const double upper = per_deviation * (distance + 1.0 / 255), lower = per_deviation * (distance - 1.0 / 255);
  const Cdf above = x > 0.999 ? Cdf{1, 0} : normal_cdf(upper);
  const Cdf below = x < -0.999 ? Cdf{0, 0} : normal_cdf(lower);
  constexpr double kLeast = 1e-12;
  const double probability = above.value - below.value;
  if (probability < kLeast) return {-std::log(kLeast), 0};
  // upper and lower go with exp(-log_variance / 2).
  return {-std::log(probability), 0.5 * (upper * above.derivative - lower * below.derivative) / probability};
}

}  // namespace

DdpmLoss ddpm_loss(const DdpmSchedule& schedule, const ClipShape& shape, std::span<const float> output,
                   std::span<const float> x0, const Noised& noised, std::span<const std::int64_t> steps,
                   std::span<float> gradient) {
  const ClipShape out = shape.with_channels(2 * shape.channels);
  REEL_CHECK(output.size() == out.size() && gradient.size() == out.size() && x0.size() == shape.size());
  REEL_CHECK(noised.target.size() == shape.size() && steps.size() == sized(shape.batch));
  const auto count = static_cast<double>(counted(shape, noised));
  REEL_CHECK(count > 0);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  double mse = 0, vb = 0;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t index = steps[sized(b)];
    const DdpmStep& step = schedule.at(sized(index));
    // How far an error of 1 in the noise moves the mean of p. The means of q and p share x_t, and at step 0, where
    // from_x0 is 1 and from_xt 0, the mean of q is x_0 itself: one formula serves both terms, and nothing cancels.
    const double mean_per_noise = step.from_x0 * std::sqrt(1 / step.alpha_bar - 1);
    const double log_variance_per_v = 0.5 * (step.log_beta - step.posterior_log_variance);
    const double vb_scale = log_variance_per_v / (std::numbers::ln2 * count);
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      for (std::int64_t f = 0; f < shape.frames; ++f) {
        if (noised.frame_mask[sized(b * shape.frames + f)] == 0) continue;
        const std::size_t clip_at = shape.at(b, c, f), noise_at = out.at(b, c, f);
        const std::size_t v_at = out.at(b, c + shape.channels, f);
        for (std::size_t i = 0; i < shape.plane(); ++i) {
          const double error = static_cast<double>(output[noise_at + i]) - noised.target[clip_at + i];
          mse += error * error;
          gradient[noise_at + i] = static_cast<float>(2 * error / count);
          const double distance = mean_per_noise * error;
          const double log_variance = learned_log_variance(step, output[v_at + i]);
          const Term term = index == 0 ? bin_code_length(x0[clip_at + i], distance, log_variance)
                                       : divergence(distance, step.posterior_log_variance, log_variance);
          vb += term.value;
          gradient[v_at + i] = static_cast<float>(vb_scale * term.derivative);
        }
      }
    }
  }
  return {mse / count, vb / (std::numbers::ln2 * count)};
}

}  // namespace reel::diffusion
