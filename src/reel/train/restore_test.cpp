#include "reel/train/restore.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/train/testing.h"

namespace reel::train {
namespace {

RunConfig restore_config(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"data.source=storyboard", "video.frames=4", "diffusion.conditioning_frames=2"};
  all.insert(all.end(), more.begin(), more.end());
  return testing::small_run("wan", all);
}

TEST(Restore, TheLevelIsADeviationAboveTheMeanOfTrainingTimes) {
  const diffusion::DiffusionConfig wide{.shift = 3}, uniform{.timesteps = "uniform"};
  for (const diffusion::DiffusionConfig& c : {diffusion::DiffusionConfig{}, wide, uniform}) {
    int below = 0;
    constexpr int kDrawn = 20000;
    for (const float t : diffusion::draw_flow_times(c, {}, kDrawn)) below += t < restore_level(c);
    EXPECT_NEAR(below, 0.84 * kDrawn, 0.01 * kDrawn);
  }
}

TEST(Restore, PsnrCountsTheFramesThatAreNotGiven) {
  const diffusion::ClipShape shape{1, 2, 3, 1, 2};
  std::vector<float> a(12, 0.25f), b = a;
  b[2] += 0.2f, b[11] -= 0.2f;  // in frame 1 of the first channel, and in frame 2 of the second
  b[0] = b[7] = 100;            // in frame 0
  EXPECT_NEAR(psnr(shape, 1, a, b), 10 * std::log10(4 / (2 * 0.04 / 8)), 1e-4);
}

TEST(Restore, NoiseIsTheSameForEveryModelAndGivenFramesStay) {
  testing::Trained dense(restore_config(), 3),
      own(restore_config({"sparsity.mode=own", "sparsity.group=[1, 1, 1]"}), 3);
  const auto by_dense = restore_held_out(dense.trainer, *dense.clips.source, 0.6, 2),
             by_own = restore_held_out(own.trainer, *own.clips.source, 0.6, 2);
  ASSERT_EQ(by_dense.size(), 2u);
  ASSERT_EQ(by_own.size(), 2u);
  const std::size_t plane = 64;
  for (std::size_t i = 0; i < 2; ++i) {
    const RestoredClip &a = by_dense[i], &b = by_own[i];
    EXPECT_EQ(a.number, static_cast<std::int64_t>(i));
    testing::expect_same_bits(testing::copy_of(a.noised), testing::copy_of(b.noised));
    EXPECT_NE(testing::copy_of(a.restored), testing::copy_of(b.restored)) << "attention is as it was trained";
    double squares = 0;
    for (std::size_t at = 0; at < a.noised.size(); ++at) {
      const bool given = at / plane % 4 < 2;
      const float truth = a.truth.values[at];
      ASSERT_EQ(a.noised[at] == truth && a.restored[at] == truth, given);
      if (!given) squares += std::pow(static_cast<double>(a.restored[at]) - truth, 2);
    }
    EXPECT_NEAR(a.psnr, 10 * std::log10(4 / (squares / (3 * 2 * plane))), 1e-6);
    EXPECT_NE(a.psnr, a.psnr_noised);
  }
  EXPECT_NE(testing::copy_of(by_dense[0].noised)[200], testing::copy_of(by_dense[1].noised)[200]);
}

// The loss that training takes down is the error of a restored clip, but for the factor level^2.
TEST(Restore, IsWhatTheValidationLossMeasures) {
  testing::Trained run(restore_config({"diffusion.logit_std=0", "data.validation=1"}), 3);
  const double level = restore_level(run.trainer.config().diffusion);
  ASSERT_EQ(level, 0.5);
  const double loss = run.trainer.validate(*run.clips.source);
  const double error = 4 / std::pow(10, restore_held_out(run.trainer, *run.clips.source, level, 1)[0].psnr / 10);
  EXPECT_NEAR(error / (level * level), loss, 0.3 * loss) << "other noise: 384 values deviate by 7 %";
}

TEST(Restore, FewerClipsThanAskedForAreAllOfThem) {
  testing::Trained run(restore_config({"data.validation=1"}), 1);
  EXPECT_EQ(restore_held_out(run.trainer, *run.clips.source, 0.5, 4).size(), 1u);
}

}  // namespace
}  // namespace reel::train
