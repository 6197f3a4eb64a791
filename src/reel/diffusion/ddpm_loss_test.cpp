#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "reel/diffusion/ddpm.h"
#include "reel/diffusion/testing.h"

namespace reel::diffusion {
namespace {

// One element of the hybrid loss, in double, in the order of Nichol & Dhariwal's text: x_t, the two means, then KL or
// the likelihood of a bin.
struct Element {
  double x0, noise;
  DdpmStep step;
  bool first;

  double squared_error(double predicted) const { return (noise - predicted) * (noise - predicted); }

  double bound(double predicted, double v) const {
    const double a = step.alpha_bar, before = step.alpha_bar_before;
    const double xt = std::sqrt(a) * x0 + std::sqrt(1 - a) * noise;
    const double data_weight = std::sqrt(before) * step.beta / (1 - a);
    const double xt_weight = std::sqrt(1 - step.beta) * (1 - before) / (1 - a);
    const double q_mean = data_weight * x0 + xt_weight * xt;
    const double predicted_x0 = (xt - std::sqrt(1 - a) * predicted) / std::sqrt(a);
    const double p_mean = data_weight * predicted_x0 + xt_weight * xt;
    const double share = (v + 1) / 2;
    const double p_log = share * std::log(step.beta) + (1 - share) * step.posterior_log_variance;
    if (!first) {
      const double q_log = step.posterior_log_variance;
      const double ratio = std::exp(q_log) / std::exp(p_log);
      const double kl = 0.5 * (ratio - 1 - std::log(ratio) + std::pow(q_mean - p_mean, 2) / std::exp(p_log));
      return kl / std::log(2.0);
    }
    const auto cdf = [&](double x) {
      const double z = (x - p_mean) / std::exp(0.5 * p_log);
      return 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * std::pow(z, 3))));
    };
    double probability = cdf(x0 + 1.0 / 255) - cdf(x0 - 1.0 / 255);
    if (x0 < -0.999) probability = cdf(x0 + 1.0 / 255);
    if (x0 > 0.999) probability = 1 - cdf(x0 - 1.0 / 255);
    return -std::log(std::max(probability, 1e-12)) / std::log(2.0);
  }
};

class DdpmLossTest : public testing::Test {
 protected:
  DdpmLossTest() {
    output_[out_.at(0, 0, 1)] = 60;  // at step 0: so improbable that the likelihood is cut off
  }

  DdpmLoss loss(std::int64_t conditioning_frames) {
    const Noised noised = ddpm_noise(schedule_, shape_, x0_, noise_, steps_, conditioning_frames);
    return ddpm_loss(schedule_, shape_, output_, x0_, noised, steps_, gradient_);
  }

  // element(expected, index of the predicted noise, index of v) for everything outside the first `given` frames.
  void for_each(std::int64_t given, const auto& element) const {
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      const std::int64_t index = steps_[static_cast<std::size_t>(b)];
      for (std::int64_t c = 0; c < shape_.channels; ++c) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.frames - given) * shape_.plane(); ++i) {
          const std::size_t at = shape_.at(b, c, given) + i;
          element(Element{x0_[at], noise_[at], schedule_[static_cast<std::size_t>(index)], index == 0},
                  out_.at(b, c, given) + i, out_.at(b, c + shape_.channels, given) + i);
        }
      }
    }
  }

  const ClipShape shape_{5, 2, 3, 2, 4}, out_ = shape_.with_channels(4);
  const DdpmSchedule schedule_ = ddpm_schedule();
  const std::vector<std::int64_t> steps_ = {0, 1, 30, 500, 999};
  const std::vector<float> x0_ = normals(shape_.size(), 0);  // about a third beyond -1 and 1: the outer bins
  const std::vector<float> noise_ = normals(shape_.size(), 1);
  std::vector<float> output_ = normals(out_.size(), 2), gradient_ = output_;
};

TEST_F(DdpmLossTest, IsSquaredErrorPlusTheBoundOfThePaper) {
  for (const std::int64_t given : {0, 1}) {
    double mse = 0, vb = 0, count = 0;
    for_each(given, [&](const Element& e, std::size_t noise_at, std::size_t v_at) {
      mse += e.squared_error(output_[noise_at]);
      vb += e.bound(output_[noise_at], output_[v_at]);
      count += 1;
    });
    const DdpmLoss found = loss(given);
    EXPECT_NEAR(found.mse, mse / count, 1e-9 * mse / count);
    EXPECT_NEAR(found.vb, vb / count, 1e-9 * vb / count);
    EXPECT_EQ(found.total(), found.mse + found.vb);
  }
}

TEST_F(DdpmLossTest, GradientMatchesFiniteDifferencesInDouble) {
  for (const std::int64_t given : {0, 1}) {
    loss(given);
    double count = 0, zeros = 0;
    for_each(given, [&](const Element&, std::size_t, std::size_t) { count += 1; });
    for_each(given, [&](const Element& e, std::size_t noise_at, std::size_t v_at) {
      const double predicted = output_[noise_at], v = output_[v_at], h = 1e-4;
      const double by_noise = (e.squared_error(predicted + h) - e.squared_error(predicted - h)) / (2 * h) / count;
      const double by_v = (e.bound(predicted, v + h) - e.bound(predicted, v - h)) / (2 * h) / count;
      // float gradients, and h^2 = 1e-8 of the curvature
      EXPECT_NEAR(gradient_[noise_at], by_noise, 1e-6 * std::abs(by_noise) + 1e-9);
      EXPECT_NEAR(gradient_[v_at], by_v, 1e-5 * std::abs(by_v) + 1e-9);
      zeros += gradient_[v_at] == 0 ? 1 : 0;
    });
    EXPECT_EQ(zeros, 1) << "only the improbable element has no gradient";
  }
}

TEST_F(DdpmLossTest, GivenFramesHaveNoGradient) {
  loss(2);
  for (std::int64_t b = 0; b < out_.batch; ++b) {
    for (std::int64_t c = 0; c < out_.channels; ++c) {
      for (std::size_t i = 0; i < 2 * out_.plane(); ++i) EXPECT_EQ(gradient_[out_.at(b, c, 0) + i], 0);
    }
  }
}

TEST_F(DdpmLossTest, ThePerfectPredictionCostsNothingBeyondTheBins) {
  for_each(0, [&](const Element& e, std::size_t noise_at, std::size_t v_at) {
    output_[noise_at] = static_cast<float>(e.noise);
    output_[v_at] = -1;  // the variance of q
  });
  const std::vector<std::int64_t> steps = {1, 2, 30, 500, 999};
  const Noised noised = ddpm_noise(schedule_, shape_, x0_, noise_, steps, 0);
  const DdpmLoss found = ddpm_loss(schedule_, shape_, output_, x0_, noised, steps, gradient_);
  EXPECT_EQ(found.mse, 0);
  EXPECT_NEAR(found.vb, 0, 1e-12);
  EXPECT_GT(loss(0).vb, 0.01);  // sample 0 at step 0: even a sharp Gaussian spills out of its bin
}

}  // namespace
}  // namespace reel::diffusion
