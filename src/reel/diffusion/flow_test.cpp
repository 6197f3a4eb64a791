#include "reel/diffusion/flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/base/testing.h"
#include "reel/diffusion/testing.h"

namespace reel::diffusion {
namespace {

double mean_of(const std::vector<float>& values, const auto& value) {
  double sum = 0;
  for (const float x : values) sum += value(x);
  return sum / static_cast<double>(values.size());
}

TEST(Flow, ShiftFollowsTheFormulaOfStableDiffusion3) {
  EXPECT_EQ(shifted(0, 3), 0);
  EXPECT_EQ(shifted(1, 3), 1);
  EXPECT_DOUBLE_EQ(shifted(0.1, 3), 0.25);
  EXPECT_DOUBLE_EQ(shifted(0.25, 3), 0.5);
  EXPECT_DOUBLE_EQ(shifted(0.5, 3), 0.75);
  EXPECT_DOUBLE_EQ(shifted(0.75, 3), 0.9);
  EXPECT_DOUBLE_EQ(shifted(0.5, 5), 5.0 / 6);  // Wan's default shift
  EXPECT_DOUBLE_EQ(shifted(0.3, 1), 0.3);
  EXPECT_DOUBLE_EQ(shifted(shifted(0.3, 3), 1.0 / 3), 0.3);
}

TEST(Flow, SamplingTimesAreWansGrid) {
  // get_sampling_sigmas of Wan 2.1: sigma from 1 towards 0 in equal parts, shifted; 0 ends it.
  const std::vector<double> times = flow_times(30, 5);
  ASSERT_EQ(times.size(), 31u);
  for (std::size_t i = 0; i <= 30; ++i) {
    const double sigma = 1 - static_cast<double>(i) / 30;
    EXPECT_NEAR(times[i], 5 * sigma / (1 + 4 * sigma), 1e-15) << i;
  }
  EXPECT_EQ(times.front(), 1);
  EXPECT_EQ(times.back(), 0);
  EXPECT_TRUE(std::is_sorted(times.rbegin(), times.rend()));
  EXPECT_EQ(flow_times(1, 3), (std::vector<double>{1, 0}));
  EXPECT_NE(message_of([] { flow_times(0, 1); }).find("cannot sample in 0 steps"), std::string::npos);
}

// Statistics over 40000 draws: tolerances are about 4 standard deviations of the estimate.
TEST(Flow, LogitNormalTimesHaveTheAskedLogits) {
  DiffusionConfig config{.logit_mean = -0.4, .logit_std = 1.3};
  const std::vector<float> times = draw_flow_times(config, {11, 3, 0}, 40000);
  const auto logit = [](double t) { return std::log(t / (1 - t)); };
  const double mean = mean_of(times, logit);
  const double variance = mean_of(times, [&](double t) { return std::pow(logit(t) - mean, 2); });
  EXPECT_NEAR(mean, -0.4, 0.026);
  EXPECT_NEAR(std::sqrt(variance), 1.3, 0.019);
  EXPECT_LT(*std::max_element(times.begin(), times.end()), 1);
}

TEST(Flow, UniformTimesFillTheIntervalWithoutZero) {
  DiffusionConfig config{.timesteps = "uniform"};
  const std::vector<float> times = draw_flow_times(config, {11, 3, 0}, 40000);
  EXPECT_EQ(draw_uniform(Purpose::kTrainingTime, {0, 0, 2725927}, 1)[0], 0);  // the first 0 of seed 0
  EXPECT_EQ(draw_flow_times(config, {0, 0, 2725927}, 1)[0], 1);
  EXPECT_LE(*std::max_element(times.begin(), times.end()), 1);
  EXPECT_NEAR(mean_of(times, [](double t) { return t; }), 0.5, 0.006);
  for (int tenth = 0; tenth < 10; ++tenth) {
    const double share = mean_of(times, [&](double t) { return std::ceil(10 * t) == tenth + 1 ? 1.0 : 0.0; });
    EXPECT_NEAR(share, 0.1, 0.006) << tenth;
  }
}

TEST(Flow, TrainingTimesAreShiftedToo) {
  DiffusionConfig config;
  const std::vector<float> plain = draw_flow_times(config, {11, 3, 0}, 100);
  config.shift = 3;
  const std::vector<float> moved = draw_flow_times(config, {11, 3, 0}, 100);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(moved[i], 3 * plain[i] / (1 + 2 * plain[i]), 1e-6);
}

TEST(Flow, VelocityLeadsFromTheNoisyClipToDataAndNoise) {
  const ClipShape shape{2, 3, 4, 2, 5};
  const std::vector<float> x0 = normals(shape.size(), 0), noise = normals(shape.size(), 1), times = {0.25f, 0.9f};
  for (const Velocity velocity : {Velocity::kNoiseMinusData, Velocity::kDataMinusNoise}) {
    const Noised noised = flow_noise(shape, x0, noise, times, 0, velocity);
    const float sign = velocity == Velocity::kNoiseMinusData ? 1.0f : -1.0f;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const float t = times[i / shape.sample()];
      EXPECT_NEAR(noised.x[i] - t * sign * noised.target[i], x0[i], 2e-6);
      EXPECT_NEAR(noised.x[i] + (1 - t) * sign * noised.target[i], noise[i], 2e-6);
    }
    EXPECT_EQ(noised.frame_times, (std::vector<float>{250, 250, 250, 250, 900, 900, 900, 900}));
  }
}

TEST(Flow, LossIsTheMeanOverTheFramesThatCount) {
  const ClipShape shape{2, 3, 4, 2, 5};
  const std::vector<float> x0 = normals(shape.size(), 0), noise = normals(shape.size(), 1);
  const Noised noised = flow_noise(shape, x0, noise, std::vector<float>{0.3f, 0.6f}, 1, Velocity::kNoiseMinusData);
  // Off by 2 where it counts; nonsense in the given frame and in the channels that mean something else.
  const ClipShape out = shape.with_channels(6);
  std::vector<float> output(out.size(), 1e6f), gradient(out.size(), 123.0f);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < 3 * shape.plane(); ++i) {
        output[out.at(b, c, 1) + i] = noised.target[shape.at(b, c, 1) + i] + 2;
      }
    }
  }
  EXPECT_NEAR(flow_loss(shape, 6, output, noised, gradient), 4, 1e-6);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t c = 0; c < 6; ++c) {
      for (std::int64_t f = 0; f < 4; ++f) {
        const double expected = c < 3 && f > 0 ? 2.0 * 2 / (2 * 3 * 3 * 10) : 0;
        for (std::size_t i = 0; i < shape.plane(); ++i) EXPECT_NEAR(gradient[out.at(b, c, f) + i], expected, 1e-8);
      }
    }
  }
}

TEST(Flow, GradientMatchesFiniteDifferences) {
  const ClipShape shape{2, 2, 3, 2, 2};
  const std::vector<float> x0 = normals(shape.size(), 0), noise = normals(shape.size(), 1);
  const Noised noised = flow_noise(shape, x0, noise, std::vector<float>{0.3f, 0.6f}, 1, Velocity::kDataMinusNoise);
  std::vector<float> output = normals(2 * shape.size(), 2), gradient(output.size()), unused(output.size());
  flow_loss(shape, 4, output, noised, gradient);
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float kept = output[i];
    output[i] = kept + 0.125f;
    const float high = output[i];
    const double above = flow_loss(shape, 4, output, noised, unused);
    output[i] = kept - 0.125f;
    const double below = flow_loss(shape, 4, output, noised, unused);
    // Central differences of a parabola are exact; what is left is the rounding of output - target to float.
    EXPECT_NEAR(gradient[i], (above - below) / (static_cast<double>(high) - output[i]), 1e-6) << i;
    output[i] = kept;
  }
}

}  // namespace
}  // namespace reel::diffusion
