#include "reel/diffusion/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "reel/base/testing.h"

namespace reel::diffusion {
namespace {

constexpr ClipShape kClips{3, 2, 4, 3, 5};

std::vector<float> noise_of(Purpose purpose, const Draws& draws, const ClipShape& shape) {
  std::vector<float> noise(shape.size());
  fill_noise(purpose, draws, shape, noise);
  return noise;
}

TEST(Noise, ASampleHasTheSameNumbersHoweverTheBatchIsCut) {
  const std::vector<float> whole = noise_of(Purpose::kTrainingNoise, {7, 12, 4}, kClips);
  ClipShape one = kClips;
  one.batch = 1;
  for (std::int64_t b = 0; b < kClips.batch; ++b) {
    const std::vector<float> part = noise_of(Purpose::kTrainingNoise, {7, 12, 4 + b}, one);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(kClips.at(b, 0, 0))));
    const auto at = static_cast<std::size_t>(b);
    EXPECT_EQ(draw_uniform(Purpose::kTrainingTime, {7, 12, 4 + b}, 1)[0],
              draw_uniform(Purpose::kTrainingTime, {7, 12, 4}, 3)[at]);
    EXPECT_EQ(draw_normal(Purpose::kTrainingTime, {7, 12, 4 + b}, 1)[0],
              draw_normal(Purpose::kTrainingTime, {7, 12, 4}, 3)[at]);
    EXPECT_EQ(draw_below(Purpose::kTrainingTime, {7, 12, 4 + b}, 1, 1000)[0],
              draw_below(Purpose::kTrainingTime, {7, 12, 4}, 3, 1000)[at]);
  }
}

TEST(Noise, SeedPurposeStepAndSampleAllMatter) {
  std::set<float> first;
  for (const Draws& draws : {Draws{7, 12, 4}, Draws{8, 12, 4}, Draws{7, 13, 4}, Draws{7, 12, 5}}) {
    first.insert(noise_of(Purpose::kTrainingNoise, draws, {1, 1, 1, 1, 1})[0]);
    first.insert(noise_of(Purpose::kSamplingStart, draws, {1, 1, 1, 1, 1})[0]);
    first.insert(noise_of(Purpose::kSamplingStep, draws, {1, 1, 1, 1, 1})[0]);
  }
  EXPECT_EQ(first.size(), 12u);
}

TEST(Noise, TheNextSampleNeverContinuesTheOneBefore) {
  // Were samples laid end to end, a long clip would hold the numbers of its shorter neighbour.
  const std::vector<float> clip = noise_of(Purpose::kTrainingNoise, {1, 1, 0}, {1, 4, 8, 8, 8});
  const float next = noise_of(Purpose::kTrainingNoise, {1, 1, 1}, {1, 4, 4, 8, 8})[0];
  EXPECT_EQ(std::count(clip.begin(), clip.end(), next), 0);
}

TEST(Noise, TextIsDroppedForTheGivenShareOfSamples) {
  constexpr std::int64_t kMany = 20000;
  const auto share = [](double wanted) {
    const auto dropped = draw_text_dropout(wanted, {3, 5, 0}, kMany);
    return static_cast<double>(std::accumulate(dropped.begin(), dropped.end(), std::int64_t{0})) / kMany;
  };
  EXPECT_EQ(share(0), 0);
  EXPECT_EQ(share(1), 1);
  EXPECT_NEAR(share(0.1), 0.1, 0.0085);  // 4 standard deviations
}

TEST(Noise, MixKeepsConditioningFramesCleanAndOutOfTheLoss) {
  std::vector<float> x0(kClips.size()), noise(kClips.size());
  std::iota(x0.begin(), x0.end(), 1.0f);
  std::iota(noise.begin(), noise.end(), 1000.0f);
  const std::vector<Mix> mixes = {{250, 0.75f, 0.25f, -1, 1}, {500, 0.5f, 0.5f, 0, 1}, {0.5f, 2, 3, 4, 5}};
  const Noised noised = mix(kClips, x0, noise, mixes, 2);
  for (std::int64_t b = 0; b < kClips.batch; ++b) {
    const Mix& m = mixes[static_cast<std::size_t>(b)];
    for (std::int64_t f = 0; f < kClips.frames; ++f) {
      const auto frame = static_cast<std::size_t>(b * kClips.frames + f);
      EXPECT_EQ(noised.frame_times[frame], f < 2 ? 0 : m.time);
      EXPECT_EQ(noised.frame_mask[frame], f < 2 ? 0 : 1);
      for (std::int64_t c = 0; c < kClips.channels; ++c) {
        for (std::size_t i = kClips.at(b, c, f); i < kClips.at(b, c, f) + kClips.plane(); ++i) {
          EXPECT_EQ(noised.x[i], f < 2 ? x0[i] : m.x_data * x0[i] + m.x_noise * noise[i]);
          EXPECT_EQ(noised.target[i], f < 2 ? 0 : m.target_data * x0[i] + m.target_noise * noise[i]);
        }
      }
    }
  }
  EXPECT_EQ(counted(kClips, noised), 3 * 2 * 2 * 15);
}

TEST(Noise, AClipOfGivenFramesOnlyIsAnError) {
  EXPECT_EQ(message_of([] { frame_times(kClips, 1, 4); }).find("4 conditioning frames leave nothing to predict in "),
            0u);
  EXPECT_EQ(message_of([] { frame_times(kClips, 1, 3); }), "no error");
}

}  // namespace
}  // namespace reel::diffusion
