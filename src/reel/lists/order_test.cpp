#include "reel/lists/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace reel::lists {
namespace {

TEST(TokenOrder, IsAPermutationAndItsInverse) {
  for (const auto& grid : {std::array<std::int64_t, 3>{8, 16, 16}, {5, 7, 9}, {1, 1, 1}, {3, 4, 10}}) {
    const TokenOrder order = tile_order(grid, {4, 4, 4});
    ASSERT_EQ(order.tokens(), grid[0] * grid[1] * grid[2]);
    std::set<std::int32_t> seen(order.raster.begin(), order.raster.end());
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), order.tokens());
    for (std::size_t i = 0; i < order.raster.size(); ++i) {
      EXPECT_EQ(order.place[static_cast<std::size_t>(order.raster[i])], static_cast<std::int32_t>(i));
    }
    EXPECT_EQ(order.group_starts.back(), order.tokens());
  }
}

TEST(TokenOrder, AGroupIsOneTile) {
  const std::array<std::int64_t, 3> grid = {5, 7, 9}, tile = {4, 3, 2};
  const TokenOrder order = tile_order(grid, tile);
  EXPECT_EQ(order.groups(), 2 * 3 * 5);
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    const auto first = order.position(order.group_starts[static_cast<std::size_t>(g)]);
    for (std::int32_t i = order.group_starts[static_cast<std::size_t>(g)];
         i < order.group_starts[static_cast<std::size_t>(g) + 1]; ++i) {
      const auto p = order.position(i);
      for (int axis = 0; axis < 3; ++axis) EXPECT_EQ(p[axis] / tile[axis], first[axis] / tile[axis]);
    }
  }
}

TEST(TokenOrder, TilesDoNotReachOverACut) {
  const TokenOrder order = tile_order({8, 4, 4}, {4, 4, 4}, {2, 3});
  // Frames 0-1, 2, 3-6, 7: tiles begin anew at every cut.
  EXPECT_EQ(order.group_starts, (std::vector<std::int32_t>{0, 32, 48, 112, 128}));
}

TEST(SampleQueries, LieInTheirGroupAndOnTheDiagonals) {
  const TokenOrder order = tile_order({8, 8, 8}, {4, 4, 4});
  for (const std::int64_t samples : {1, 4, 16, 64}) {
    const auto tokens = sample_queries(order, samples);
    ASSERT_EQ(static_cast<std::int64_t>(tokens.size()), order.groups() * samples);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t g = i / static_cast<std::size_t>(samples);
      EXPECT_GE(tokens[i], order.group_starts[g]);
      EXPECT_LT(tokens[i], order.group_starts[g + 1]);
      if (samples == 16) {
        const auto p = order.position(tokens[i]);
        EXPECT_EQ((p[0] + p[1] + p[2]) % 4, 0);
      }
    }
    if (samples == 64) {
      EXPECT_EQ(std::set<std::int32_t>(tokens.begin(), tokens.end()).size(), tokens.size());
    }
  }
}

TEST(SampleQueries, ShortGroupsRepeatTheirTokens) {
  const TokenOrder order = tile_order({1, 1, 5}, {4, 4, 4});  // groups of 4 and 1
  const auto tokens = sample_queries(order, 16);
  EXPECT_EQ(std::set<std::int32_t>(tokens.begin() + 16, tokens.end()), (std::set<std::int32_t>{4}));
}

}  // namespace
}  // namespace reel::lists
