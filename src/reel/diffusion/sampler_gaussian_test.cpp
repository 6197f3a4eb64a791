// Samplers against data for which the best possible model is known in closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/diffusion/ddpm.h"
#include "reel/diffusion/sampler.h"
#include "reel/diffusion/testing.h"

namespace reel::diffusion {
namespace {

constexpr ClipShape kGaussian{2, 2, 3, 4, 5};
constexpr double kMean = 0.7, kDeviation = 0.3;

// Data whose elements are independent N(kMean, kDeviation^2): what the best possible model answers is known. With
// x = a x_0 + b noise, the expectations of x_0 and noise given x are linear in x.
struct Expected {
  double data, noise, data_variance;
};

Expected expected(double x, double a, double b) {
  const double variance = a * a * kDeviation * kDeviation + b * b, offset = (x - a * kMean) / variance;
  return {kMean + a * kDeviation * kDeviation * offset, b * offset, kDeviation * kDeviation * b * b / variance};
}

Denoise best_flow(const ClipShape& shape, std::int64_t output_channels, Velocity velocity) {
  const double sign = velocity == Velocity::kNoiseMinusData ? 1 : -1;
  return model(shape, output_channels, [=](double x, double time) {
    const Expected e = expected(x, 1 - time / 1000, time / 1000);
    return Pair{sign * (e.noise - e.data), 1e3};
  });
}

// `steps` is the schedule that the sampler walks: the best variance depends on the length of its steps.
Denoise best_ddpm(const ClipShape& shape, std::int64_t steps) {
  const DdpmSchedule schedule = ddpm_schedule(steps);
  std::vector<std::size_t> index(1000);
  for (std::size_t i = 0; i < schedule.size(); ++i) index[static_cast<std::size_t>(schedule[i].timestep)] = i;
  return model(shape, 2 * shape.channels, [=](double x, double time) {
    const DdpmStep& s = schedule[index[static_cast<std::size_t>(time)]];
    const Expected e = expected(x, std::sqrt(s.alpha_bar), std::sqrt(1 - s.alpha_bar));
    const double log_variance = std::log(s.posterior_variance + s.from_x0 * s.from_x0 * e.data_variance);
    const double share = (log_variance - s.posterior_log_variance) / (s.log_beta - s.posterior_log_variance);
    return Pair{e.noise, s.timestep == 0 ? 0 : 2 * share - 1};
  });
}

struct Statistics {
  double mean = 0, deviation = 0;
};

Statistics statistics(const std::vector<float>& values) {
  Statistics s;
  for (const float x : values) s.mean += x / static_cast<double>(values.size());
  for (const float x : values) s.deviation += std::pow(x - s.mean, 2) / static_cast<double>(values.size());
  s.deviation = std::sqrt(s.deviation);
  return s;
}

double largest_difference(const std::vector<float>& a, const auto& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b(i)));
  return largest;
}

TEST(SamplerOfGaussians, FlowEndsAtTheDataAndErrorsShrinkWithTheSteps) {
  // The exact path keeps the number of standard deviations: noise z ends at mean + deviation z. Euler is of first
  // order, so four times the steps leave about a quarter of the error.
  const std::vector<float> z = start_noise(kGaussian, 1);
  for (const Velocity velocity : {Velocity::kNoiseMinusData, Velocity::kDataMinusNoise}) {
    for (const double shift : {1.0, 3.0}) {
      const auto error = [&](std::int64_t steps) {
        std::vector<float> clip(kGaussian.size());
        sample_flow(kGaussian, 4, best_flow(kGaussian, 4, velocity), velocity, shift, {.steps = steps, .seed = 1},
                    clip);
        return largest_difference(clip, [&](std::size_t i) { return kMean + kDeviation * z[i]; });
      };
      const double at_10 = error(10), at_40 = error(40), at_160 = error(160), at_640 = error(640);
      EXPECT_GT(at_10, 2 * at_40);
      EXPECT_NEAR(at_40 / at_160, 4, 0.6) << "shift " << shift;
      EXPECT_NEAR(at_160 / at_640, 4, 0.2) << "shift " << shift;
      EXPECT_LT(at_640, 0.01);  // the farthest of 240 elements is 3 deviations out: 1 % of it
    }
  }
}

TEST(SamplerOfGaussians, FlowReproducesMeanAndVariance) {
  const ClipShape shape{1, 2, 2, 50, 50};
  std::vector<float> clip(shape.size());
  sample_flow(shape, 2, best_flow(shape, 2, Velocity::kNoiseMinusData), Velocity::kNoiseMinusData, 3,
              {.steps = 400, .seed = 2}, clip);
  const Statistics s = statistics(clip);
  EXPECT_NEAR(s.mean, kMean, 0.04 * kDeviation);            // 4 standard deviations of the mean of 10000
  EXPECT_NEAR(s.deviation, kDeviation, 0.04 * kDeviation);  // 0.028 of chance, 0.01 of 400 steps
}

TEST(SamplerOfGaussians, OneStepOfFlowIsExactForAPointMass) {
  std::vector<float> clip(kGaussian.size());
  for (const std::int64_t steps : {1, 5}) {
    const Denoise denoise = model(kGaussian, 2, [](double x, double time) {
      return Pair{(x - 0.25) / (time / 1000), 0};
    });
    sample_flow(kGaussian, 2, denoise, Velocity::kNoiseMinusData, 1, {.steps = steps, .seed = 3}, clip);
    EXPECT_LT(largest_difference(clip, [](std::size_t) { return 0.25; }), 1e-6);
  }
}

TEST(SamplerOfGaussians, DdimEndsAtTheDataAndErrorsShrinkWithTheSteps) {
  // As above, but the walk starts from N(0, 1) instead of the last step's N(sqrt(a) mean, ...): z is counted from
  // there.
  const double a = ddpm_schedule().back().alpha_bar;
  const std::vector<float> z = start_noise(kGaussian, 1);
  const double start = std::sqrt(a * kDeviation * kDeviation + 1 - a);
  const auto error = [&](std::int64_t steps) {
    std::vector<float> clip(kGaussian.size());
    sample_ddim(kGaussian, 4, best_ddpm(kGaussian, 1000), 0, {.steps = steps, .seed = 1}, clip);
    return largest_difference(
        clip, [&](std::size_t i) { return kMean + kDeviation * (z[i] - std::sqrt(a) * kMean) / start; });
  };
  const double at_10 = error(10), at_50 = error(50), at_250 = error(250), at_1000 = error(1000);
  EXPECT_GT(at_10, 3 * at_50);
  EXPECT_GT(at_50, 3 * at_250);
  EXPECT_LT(at_1000, 0.006);  // 3 deviations out: less than 1 %
}

// Mean and deviation that equation 12 of Song et al. leads to, step by step in double: each step is linear in x.
Statistics ddim_statistics(std::int64_t steps, double eta) {
  const DdpmSchedule schedule = ddpm_schedule(steps);
  double mean = 0, variance = 1;
  for (auto s = schedule.rbegin(); s != schedule.rend(); ++s) {
    const double a = s->alpha_bar, before = s->alpha_bar_before;
    const double sigma = eta * std::sqrt((1 - before) / (1 - a)) * std::sqrt(1 - a / before);
    const auto next = [&](double x) {
      const double noise = expected(x, std::sqrt(a), std::sqrt(1 - a)).noise;
      const double data = (x - std::sqrt(1 - a) * noise) / std::sqrt(a);
      return std::sqrt(before) * data + std::sqrt(1 - before - sigma * sigma) * noise;
    };
    const double slope = next(mean + 1) - next(mean);
    mean = next(mean);
    variance = slope * slope * variance + sigma * sigma;
  }
  return {mean, std::sqrt(variance)};
}

TEST(SamplerOfGaussians, DdimFollowsItsEquationForEveryEta) {
  const ClipShape shape{1, 2, 2, 50, 50};
  std::vector<float> clip(shape.size());
  for (const double eta : {0.0, 0.5, 1.0}) {
    sample_ddim(shape, 4, best_ddpm(shape, 1000), eta, {.steps = 25, .seed = 4}, clip);
    const Statistics found = statistics(clip), wanted = ddim_statistics(25, eta);
    EXPECT_NEAR(found.mean, wanted.mean, 0.04 * wanted.deviation) << "eta " << eta;  // 4 standard deviations each
    EXPECT_NEAR(found.deviation, wanted.deviation, 0.028 * wanted.deviation) << "eta " << eta;
    EXPECT_NEAR(ddim_statistics(1000, eta).mean, kMean, 0.002);
    EXPECT_NEAR(ddim_statistics(1000, eta).deviation, kDeviation, 0.02 * kDeviation);
  }
}

TEST(SamplerOfGaussians, DdpmWithTheBestVarianceIsExactInFewSteps) {
  // For Gaussian data p(x_{t-1} | x_t) is a Gaussian at any step length, so 8 steps are as good as 1000; with the
  // variance at the lower end of its range they are not.
  const ClipShape shape{1, 2, 4, 50, 50};
  std::vector<float> clip(shape.size());
  for (const std::int64_t steps : {8, 40}) {
    const Denoise best = best_ddpm(shape, steps);
    sample_ddpm(shape, best, {.steps = steps, .seed = 5}, clip);
    const Statistics s = statistics(clip);
    EXPECT_NEAR(s.mean, kMean, 4 * kDeviation / std::sqrt(20000) + 0.001) << steps;
    EXPECT_NEAR(s.deviation, kDeviation, 0.02 * kDeviation) << steps;  // 4 standard deviations of the estimate
    const Denoise narrow = [&](auto x, auto times, bool with_text, auto out) {
      best(x, times, with_text, out);
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(shape.size()), out.end(), -1.0f);
    };
    sample_ddpm(shape, narrow, {.steps = steps, .seed = 5}, clip);
    EXPECT_LT(statistics(clip).deviation, 0.9 * kDeviation) << steps;
  }
}

}  // namespace
}  // namespace reel::diffusion
