#include "reel/plan/reuse.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/plan/testing.h"

namespace reel::plan {
namespace {

TEST(Reuse, FiftyStepsOfSlowlyChangingMasksNeedFewPlans) {
  for (const auto& [ulysses, ring] : {std::pair(8, 1), {4, 2}, {1, 8}}) {
    Reuse reuse({.ulysses = ulysses, .ring = ring}, 1.07, 128, 2);
    double sum = 0, contiguous_sum = 0;
    int plans = 0;
    for (int step = 0; step < 50; ++step) {
      // Over the 50 steps every head goes through a quarter of its cycle: some grow or shrink by half.
      const lists::KeyLists lists = video_lists(Kind::kMixed, 24, 64, 1, step / 200.0);
      const Counts work = count_work(lists, kBlockCost);
      const Reuse::Step result = reuse.next(work);
      EXPECT_NEAR(result.rho, slow_imbalance(lists, kBlockCost, reuse.partition(), work.column_of).rho, 1e-6);
      if (!result.planned) {
        EXPECT_EQ(result.moved.bytes, 0);
      }
      sum += result.rho;
      contiguous_sum += result.rho_contiguous;
      plans += result.planned ? 1 : 0;
    }
    EXPECT_LE(sum / 50, 1.05) << ulysses << " x " << ring;
    EXPECT_LE(plans, 10) << ulysses << " x " << ring;
    EXPECT_GT(contiguous_sum / 50, 1.1) << ulysses << " x " << ring;  // there was something to do
  }
}

TEST(Reuse, KeepsWhatIsGoodEnough) {
  Reuse reuse({.ulysses = 4, .ring = 2}, 1.05, 128, 2);
  const Counts work = count_work(video_lists(Kind::kClustered, 16, 48, 3), kBlockCost);
  EXPECT_TRUE(reuse.next(work).planned);
  const Partition first = reuse.partition();
  const Reuse::Step again = reuse.next(work);
  EXPECT_FALSE(again.planned);
  EXPECT_EQ(again.rho, again.rho_kept);
  EXPECT_EQ(reuse.partition().rows, first.rows);
}

TEST(Reuse, TheFirstStepIsPlannedEvenBelowTheLimit) {
  Reuse reuse({.ulysses = 4, .ring = 2}, 3, 128, 2);
  const Reuse::Step step = reuse.next(count_work(video_lists(Kind::kClustered, 16, 48, 3), kBlockCost));
  EXPECT_LE(step.rho_contiguous, 3);
  EXPECT_TRUE(step.planned);
  EXPECT_LE(step.rho, 1.2);
}

TEST(Reuse, AMaskOfAnotherModelIsAnError) {
  Reuse reuse({.ulysses = 2, .ring = 1}, 1.05, 128, 2);
  reuse.next(count_work(lists::dense_lists(1, 4, 64, 256), {0, 1}));
  EXPECT_NE(message_of([&] {
              reuse.next(count_work(lists::dense_lists(1, 6, 64, 256), {0, 1}));
            }).find("6 heads"),
            std::string::npos);
  EXPECT_NE(message_of([] { Reuse({}, 1.0, 128, 2); }).find("limit of 1"), std::string::npos);
}

}  // namespace
}  // namespace reel::plan
