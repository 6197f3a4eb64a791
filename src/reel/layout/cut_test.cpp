#include "reel/layout/cut.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"

namespace reel::layout {
namespace {

TEST(Cut, PartsDifferByOneAndMayBeEmpty) {
  EXPECT_EQ(even_cut(7, 3).starts, (std::vector<std::int64_t>{0, 3, 5, 7}));
  EXPECT_EQ(even_cut(2, 4).starts, (std::vector<std::int64_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(some_parts(even_cut(7, 3), 1, 2).starts, (std::vector<std::int64_t>{0, 2, 4}));
}

using Starts = std::vector<std::int64_t>;

TEST(RestingCut, HasWholeGroups) {
  const std::vector<std::int32_t> uneven = {0, 10, 12, 40, 41, 100};
  EXPECT_EQ(resting_cut(uneven, 1).starts, (Starts{0, 100}));
  EXPECT_EQ(resting_cut(uneven, 2).starts, (Starts{0, 12, 100}));
  EXPECT_EQ(resting_cut(uneven, 3).starts, (Starts{0, 10, 40, 100}));
  EXPECT_EQ(resting_cut(uneven, 5).starts, (Starts{0, 10, 12, 40, 41, 100}));
}

TEST(RestingCut, LeavesPartsEmptyWhereGroupsAreFewer) {
  const std::vector<std::int32_t> two = {0, 64, 100};
  EXPECT_EQ(resting_cut(two, 4).starts, (Starts{0, 0, 64, 64, 100}));
  EXPECT_EQ(resting_cut(std::vector<std::int32_t>{0}, 2).starts, (Starts{0, 0, 0}));
}

// What a ring position has is what its Ulysses ranks have together.
TEST(RestingCut, CutsNest) {
  for (const int ulysses : {1, 2, 3, 4}) {
    for (const int ring : {1, 2, 3, 5}) {
      for (const std::int64_t groups : {0, 1, 7, 64, 65}) {
        const Cut fine = resting_cut(groups, ulysses * ring), coarse = resting_cut(groups, ring);
        for (int i = 0; i <= ring; ++i) {
          EXPECT_EQ(coarse.starts[static_cast<std::size_t>(i)], fine.starts[static_cast<std::size_t>(i * ulysses)]);
        }
      }
    }
  }
}

TEST(Clips, EveryGroupHasOne) {
  EXPECT_EQ(cut_of_clips("train.batch", 7, 3).starts, (Starts{0, 3, 5, 7}));
  EXPECT_EQ(message_of([] { cut_of_clips("train.batch", 2, 4); }),
            "train.batch = 2 for 4 data-parallel groups of ranks: some would have no clip | use train.batch = 4 or "
            "more, 2 groups or fewer, or a plan for more ranks a clip");
}

}  // namespace
}  // namespace reel::layout
