#include "reel/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/train/testing.h"

namespace reel::train {
namespace {

using testing::Clips;
using testing::copy_of;
using testing::doubles;
using testing::expect_close;
using testing::expect_same_bits;
using testing::small_run;
using testing::Trained;

// Noise, times and dropped texts belong to the number of a sample, so only the order of additions differs: gradients
// agree to some roundings of the largest of them.
TEST(Trainer, TwoBatchesOfTwoAreABatchOfFour) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained whole(small_run(family, {"train.batch=4", "diffusion.text_dropout=0.5"}), 1);
    Trained parts(small_run(family, {"train.batch=2", "train.accumulate=2", "diffusion.text_dropout=0.5"}), 1);
    EXPECT_NEAR(parts.reports[0].loss, whole.reports[0].loss, 1e-6 * whole.reports[0].loss);
    EXPECT_NEAR(parts.reports[0].gradient_norm, whole.reports[0].gradient_norm, 1e-5 * whole.reports[0].gradient_norm);
    const std::span<const float> gradients = whole.trainer.model().parameters().gradients();
    const double largest = std::abs(*std::max_element(gradients.begin(), gradients.end(),
                                                      [](float a, float b) { return std::abs(a) < std::abs(b); }));
    expect_close(parts.trainer.model().parameters().gradients(), doubles(gradients), 1e-5 * largest, 0);
    EXPECT_EQ(whole.clips.loader.position(), parts.clips.loader.position());
  }
}

TEST(Trainer, AnyNumberOfThreadsAndRecomputeGiveTheSameBits) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained one(small_run(family), 3);
    for (const int count : {2, 3}) {
      Trained several(small_run(family, {"train.recompute=true"}), 3, count);
      expect_same_bits(several.values(), one.values());
      expect_same_bits(several.trainer.optimizer().average(), one.trainer.optimizer().average());
      EXPECT_EQ(several.reports.back().loss, one.reports.back().loss);
    }
  }
}

TEST(Trainer, EveryStepHasNoiseOfItsOwnAndTheScheduledRate) {
  const auto losses = [](const RunConfig& c) {  // of the same clips and, without a learning rate, the same weights
    Trained still(c, 0);
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) {
      Clips first(c);
      all.push_back(still.trainer.step([&] { return first(); }).loss);
    }
    return all;
  };
  const std::vector<double> one = losses(small_run("wan", {"train.lr=0"}));
  EXPECT_NE(one[0], one[1]);
  EXPECT_NE(one[1], one[2]);
  EXPECT_EQ(losses(small_run("wan", {"train.lr=0"})), one);
  Trained run(small_run("wan", {"train.lr=0.5", "train.warmup=4"}), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(run.reports[i].lr, 0.125 * static_cast<double>(i + 1));
  EXPECT_EQ(run.trainer.steps_done(), 3);
}

TEST(Trainer, ValidationIsAlwaysTheSameNumber) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained one(small_run(family, {"diffusion.text_dropout=1"}), 1),
        two(small_run(family, {"diffusion.text_dropout=1"}), 1, 2);
    const double loss = one.trainer.validate(*one.clips.source);
    EXPECT_GT(loss, 0);
    EXPECT_EQ(one.trainer.validate(*one.clips.source), loss);
    EXPECT_EQ(two.trainer.validate(*two.clips.source), loss);
    // The seed of the run changes its training, not what it is measured by; and no text is dropped.
    RunConfig c = small_run(family, {"train.seed=9", "diffusion.text_dropout=0"});
    Threads threads(1);
    Trainer other(c, threads);
    std::copy(one.values().begin(), one.values().end(), other.model().parameters().trained_values().begin());
    EXPECT_EQ(other.validate(*one.clips.source), loss);
  }
  Trained none(small_run("wan", {"data.validation=0"}), 0);
  EXPECT_TRUE(std::isnan(none.trainer.validate(*none.clips.source)));
}

TEST(Trainer, ValidationDoesNotDisturbTraining) {
  Trained plain(small_run("wan"), 2), validated(small_run("wan"), 1);
  validated.trainer.validate(*validated.clips.source);
  validated.step();
  expect_same_bits(validated.values(), plain.values());
}

TEST(Trainer, LearnsToDenoiseShapes) {
  const RunConfig c =
      small_run("wan", {"train.steps=200", "train.lr=0.01", "train.batch=4", "diffusion.timesteps=uniform"});
  Threads threads(1);
  Trainer trainer(c, threads);
  Clips clips(c);
  const double before = trainer.validate(*clips.source);
  for (int i = 0; i < 200; ++i) trainer.step([&] { return clips(); });
  EXPECT_LT(trainer.validate(*clips.source), 0.7 * before);
  trainer.with_average([&] { EXPECT_LT(trainer.validate(*clips.source), 0.7 * before); });
}

TEST(Trainer, WithAverageShowsTheAverageAndPutsTheWeightsBack) {
  Trained run(small_run("wan"), 3);
  const std::vector<float> weights = copy_of(run.values()), average = copy_of(run.trainer.optimizer().average());
  ASSERT_NE(weights, average);
  run.trainer.with_average([&] { expect_same_bits(run.values(), average); });
  EXPECT_THROW(run.trainer.with_average([] { throw Error("sampling failed"); }), Error);
  expect_same_bits(run.values(), weights);
  expect_same_bits(run.trainer.optimizer().average(), average);

  Trained plain(small_run("wan", {"train.ema=0"}), 3);
  const std::vector<float> present = copy_of(plain.values());
  plain.trainer.with_average([&] { expect_same_bits(plain.values(), present); });
}

TEST(Trainer, AStepThatIsNotFiniteUpdatesNothing) {
  Trained run(small_run("wan"), 1);
  const std::vector<float> weights = copy_of(run.values()), average = copy_of(run.trainer.optimizer().average());
  const std::vector<float> first = copy_of(run.trainer.optimizer().first_moment());
  const StepReport report = run.trainer.step([&] {
    data::Batch batch = run.clips();
    batch.values[0] = kernels::testing::kInfinity;
    return batch;
  });
  EXPECT_TRUE(report.skipped);
  EXPECT_FALSE(std::isfinite(report.loss));
  expect_same_bits(run.values(), weights);
  expect_same_bits(run.trainer.optimizer().average(), average);
  expect_same_bits(run.trainer.optimizer().first_moment(), first);
  EXPECT_EQ(run.trainer.steps_done(), 2);              // its noise and its clips are used up,
  EXPECT_EQ(run.trainer.optimizer().steps_done(), 1);  // but AdamW has seen one step
  EXPECT_FALSE(run.step().skipped);
}

}  // namespace
}  // namespace reel::train
