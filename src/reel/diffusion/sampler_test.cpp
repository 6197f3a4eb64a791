#include "reel/diffusion/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/testing.h"
#include "reel/diffusion/testing.h"

namespace reel::diffusion {
namespace {

constexpr ClipShape kShape{2, 2, 3, 4, 5};

void sample_with(int sampler, const ClipShape& shape, const Denoise& denoise, const SamplerOptions& options,
                 std::span<float> clip) {
  if (sampler == 0) sample_flow(shape, 2 * shape.channels, denoise, Velocity::kDataMinusNoise, 2, options, clip);
  if (sampler == 1) sample_ddim(shape, 2 * shape.channels, denoise, 1, options, clip);
  if (sampler == 2) sample_ddpm(shape, denoise, options, clip);
}

Denoise smooth(const ClipShape& shape) {
  return model(shape, 2 * shape.channels, [](double x, double time) { return Pair{std::sin(x + time), std::cos(x)}; });
}

TEST(Sampler, AClipDependsOnItsSeedAndNumberOnly) {
  ClipShape one = kShape;
  one.batch = 1;
  for (const int sampler : {0, 1, 2}) {
    std::vector<float> clips(kShape.size(), 99.0f), again(kShape.size()), other(kShape.size()), second(one.size());
    sample_with(sampler, kShape, smooth(kShape), {.steps = 4, .seed = 9, .first_sample = 3}, clips);
    sample_with(sampler, kShape, smooth(kShape), {.steps = 4, .seed = 9, .first_sample = 3}, again);
    sample_with(sampler, kShape, smooth(kShape), {.steps = 4, .seed = 10, .first_sample = 3}, other);
    sample_with(sampler, one, smooth(one), {.steps = 4, .seed = 9, .first_sample = 4}, second);
    EXPECT_EQ(clips, again);
    EXPECT_NE(clips, other);
    EXPECT_TRUE(std::equal(second.begin(), second.end(), clips.begin() + static_cast<std::ptrdiff_t>(one.size())));
  }
}

TEST(Sampler, GivenFramesAreShownCleanAtTimeZeroAndComeOutUntouched) {
  const std::vector<float> given = normals(kShape.size(), 0);

  const auto kept = [&](std::span<const float> clip, std::int64_t b, std::int64_t c) {
    const auto at = static_cast<std::ptrdiff_t>(kShape.at(b, c, 0)),
               count = static_cast<std::ptrdiff_t>(2 * kShape.plane());
    return std::equal(given.begin() + at, given.begin() + at + count, clip.begin() + at);
  };
  for (const int sampler : {0, 1, 2}) {
    int calls = 0;
    const Denoise inner = smooth(kShape);
    const Denoise denoise = [&](auto x, auto times, bool with_text, auto out) {
      const bool at_step_0 = ++calls == 3 && sampler != 0;  // the last of ddim and ddpm, at time 0 for every frame
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t c = 0; c < 2; ++c) EXPECT_TRUE(kept(x, b, c));
        for (std::size_t f = 0; f < 3; ++f) {
          EXPECT_EQ(times[static_cast<std::size_t>(b) * 3 + f] == 0, f < 2 || at_step_0);
        }
      }
      inner(x, times, with_text, out);
    };
    std::vector<float> clip = given;
    sample_with(sampler, kShape, denoise, {.steps = 3, .conditioning_frames = 2}, clip);
    EXPECT_EQ(calls, 3);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t c = 0; c < 2; ++c) EXPECT_TRUE(kept(clip, b, c));
    }
    EXPECT_NE(clip[kShape.at(0, 0, 2)], given[kShape.at(0, 0, 2)]);
  }
}

TEST(Sampler, GuidanceExtrapolatesFromWithoutTextToWithText) {
  // Velocities are constants, so one step from noise z ends at z - v.
  const auto guided = [&](double guidance, int& calls) {
    const Denoise denoise = [&](auto, auto, bool with_text, auto out) {
      ++calls;
      std::fill(out.begin(), out.end(), with_text ? 0.5f : 0.2f);
    };
    std::vector<float> clip(kShape.size());
    sample_flow(kShape, 4, denoise, Velocity::kNoiseMinusData, 1, {.steps = 1, .guidance = guidance, .seed = 1}, clip);
    return start_noise(kShape, 1)[17] - clip[17];
  };
  int calls = 0;
  EXPECT_NEAR(guided(1, calls), 0.5, 1e-6);
  EXPECT_EQ(calls, 1);
  EXPECT_NEAR(guided(0, calls), 0.2, 1e-6);
  EXPECT_EQ(calls, 2);
  EXPECT_NEAR(guided(7, calls), 0.2 + 7 * 0.3, 1e-6);
  EXPECT_EQ(calls, 4);
}

TEST(Sampler, GuidanceLeavesTheLearnedVarianceAlone) {
  const auto sampled = [&](double guidance, float v_without) {
    const Denoise denoise = [&](auto, auto, bool with_text, auto out) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const bool noise = i % (2 * kShape.sample()) < kShape.sample();
        out[i] = noise ? 0.1f : with_text ? 0.3f : v_without;
      }
    };
    std::vector<float> clip(kShape.size());
    sample_ddpm(kShape, denoise, {.steps = 3, .guidance = guidance}, clip);
    return clip;
  };
  EXPECT_EQ(sampled(1, 0), sampled(5, -0.8f));
}

// The slow way: every element by itself, in double.
TEST(Sampler, AClipIsNoisedToItsLevelAndWalkedBackAlongTheVelocity) {
  const std::vector<float> truth = normals(kShape.size(), 1), noise = start_noise(kShape, 8);
  const SamplerOptions options{.steps = 3, .seed = 8, .conditioning_frames = 1};
  constexpr double kLevel = 0.6;
  std::vector<float> clip = truth;
  noise_clip(kShape, kLevel, options, clip);
  const std::vector<float> noised = clip;
  const auto velocity = [](double x, double t) { return std::sin(x + 3 * t); };
  restore_flow(kShape, 2,
               model(kShape, 2,
                     [&](double x, double time) {
                       return Pair{velocity(x, time / 1000), 0};
                     }),
               Velocity::kNoiseMinusData, kLevel, options, clip);
  for (std::size_t i = 0; i < clip.size(); ++i) {
    const bool given = i / kShape.plane() % 3 == 0;
    double x = given ? truth[i] : (1 - kLevel) * truth[i] + kLevel * noise[i];
    ASSERT_NEAR(noised[i], x, 1e-6) << i;
    for (const double t : {0.6, 0.4, 0.2}) x -= given ? 0 : 0.2 * velocity(x, t);
    ASSERT_NEAR(clip[i], x, 1e-5) << i;
  }
}

TEST(Sampler, TheTrueVelocityRestoresAClipInAnyNumberOfSteps) {
  const std::vector<float> truth = normals(kShape.size(), 2), noise = start_noise(kShape, 8);
  for (const auto& [velocity, sign] :
       {std::pair(Velocity::kNoiseMinusData, 1.0f), {Velocity::kDataMinusNoise, -1.0f}}) {
    const Denoise exact = [&, sign = sign](auto, auto, bool, auto out) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = sign * (noise[i] - truth[i]);
    };
    for (const std::int64_t steps : {1, 4}) {
      std::vector<float> clip = truth;
      const SamplerOptions options{.steps = steps, .seed = 8};
      noise_clip(kShape, 0.7, options, clip);
      restore_flow(kShape, 2, exact, velocity, 0.7, options, clip);
      for (std::size_t i = 0; i < clip.size(); ++i) ASSERT_NEAR(clip[i], truth[i], 1e-5);
    }
  }
}

// Not a number may stand where noise is to come.
TEST(Sampler, AtLevelOneOnlyNoiseIsLeft) {
  std::vector<float> clip(kShape.size(), std::numeric_limits<float>::quiet_NaN());
  noise_clip(kShape, 1, {.seed = 8}, clip);
  EXPECT_EQ(clip, start_noise(kShape, 8));
}

TEST(Sampler, ProgressCountsEveryStep) {
  for (const int sampler : {0, 1, 2}) {
    std::vector<std::int64_t> seen;
    std::vector<float> clip(kShape.size());
    sample_with(sampler, kShape, smooth(kShape),
                {.steps = 3,
                 .progress =
                     [&](std::int64_t step, std::int64_t steps) {
                       seen.insert(seen.end(), {step, steps});
                     }},
                clip);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 3, 2, 3, 3, 3}));
  }
}

TEST(Sampler, OutputThatIsNotFiniteNamesTheStep) {
  for (const int sampler : {0, 1, 2}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      int calls = 0;
      const Denoise denoise = [&](auto, auto, bool, auto out) {
        std::fill(out.begin(), out.end(), 0.0f);
        if (++calls == 4) out[5] = bad;  // two calls a step: the second step, without text
      };
      std::vector<float> clip(kShape.size());
      const std::string message =
          message_of([&] { sample_with(sampler, kShape, denoise, {.steps = 6, .guidance = 3}, clip); });
      EXPECT_EQ(message.find("step 2 of 6: the model's output without text is not finite"), 0u) << message;
    }
  }
}

TEST(Sampler, ImpossibleRequestsAreErrorsBeforeTheModelRuns) {
  const Denoise never = [](auto, auto, bool, auto) { FAIL(); };
  std::vector<float> clip(kShape.size());
  for (const int sampler : {0, 1, 2}) {
    EXPECT_NE(message_of([&] { sample_with(sampler, kShape, never, {.steps = 0}, clip); }).find("in 0 steps"),
              std::string::npos);
    EXPECT_NE(message_of([&] {
                sample_with(sampler, kShape, never, {.conditioning_frames = 3}, clip);
              }).find("3 conditioning frames"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace reel::diffusion
