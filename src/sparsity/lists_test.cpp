#include "sparsity/lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sparsity/testing.h"

namespace reel::sparsity {
namespace {

using attention::KeyLists;
using attention::KeyListsBuilder;
using testing::tokens_of;
using List = std::vector<std::int32_t>;

List list(const KeyLists& lists, std::int64_t b, std::int64_t h, std::int64_t g) {
  const auto found = lists.list(b, h, g);
  return {found.begin(), found.end()};
}

// Groups of 3, 1 and 4 tokens.
TEST(WithOwnTile, AddsTheTokensOfTheGroupOnce) {
  KeyListsBuilder builder(1, 2, 8, {0, 3, 4, 8});
  builder.add(List{1, 5});
  builder.add(List{});
  builder.add(List{0, 2, 3, 7});
  builder.add_dense_head();
  const KeyLists lists = with_own_tile(builder.finish());
  EXPECT_EQ(list(lists, 0, 0, 0), (List{0, 1, 2, 5}));
  EXPECT_EQ(list(lists, 0, 0, 1), (List{3}));
  EXPECT_EQ(list(lists, 0, 0, 2), (List{0, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(lists.dense(0, 1));
  EXPECT_FALSE(lists.dense(0, 0));
}

TEST(WithOwnTile, AddsWhatIsAlwaysKept) {
  KeyListsBuilder builder(2, 1, 8, {0, 3, 4, 8});
  for (int i = 0; i < 6; ++i) builder.add(List{4});
  const KeyLists lists = with_own_tile(builder.finish(), List{2, 6});
  for (std::int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(list(lists, b, 0, 0), (List{0, 1, 2, 4, 6}));
    EXPECT_EQ(list(lists, b, 0, 1), (List{2, 3, 4, 6}));
    EXPECT_EQ(list(lists, b, 0, 2), (List{2, 4, 5, 6, 7}));
  }
}

// Groups that begin and end inside tiles of 64 keys: every tile they touch.
TEST(WithOwnTile, TakesEveryTileOfKeysThatTheGroupTouches) {
  KeyListsBuilder builder(1, 1, 200, {0, 63, 65, 128, 200}, attention::kTileKeys);
  for (const List& each : {List{2}, List{}, List{0, 1, 2, 3}, List{0}}) builder.add(each);
  const KeyLists lists = with_own_tile(builder.finish(), List{130, 131, 150});
  EXPECT_EQ(list(lists, 0, 0, 0), (List{0, 2}));
  EXPECT_EQ(list(lists, 0, 0, 1), (List{0, 1, 2}));
  EXPECT_EQ(list(lists, 0, 0, 2), (List{0, 1, 2, 3}));
  EXPECT_EQ(list(lists, 0, 0, 3), (List{0, 2, 3}));
}

TEST(TokensOfFrames, AreThoseOfTheFramesInTileOrder) {
  const TokenOrder order = tile_order({3, 5, 7}, {2, 4, 4});
  const List tokens = tokens_of_frames(order, std::vector<std::int64_t>{2, 0});
  EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
  EXPECT_EQ(tokens.size(), 2u * 5 * 7);
  for (const std::int32_t token : tokens) EXPECT_NE(order.position(token)[0], 1);
  EXPECT_TRUE(tokens_of_frames(order, {}).empty());
}

TEST(OwnLists, HoldTheOwnTileAndNothingElse) {
  const TokenOrder order = tile_order({3, 5, 7}, {4, 4, 4});
  const KeyLists lists = own_lists(order, 2, 3);
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    const List own = list(lists, 1, 2, g);
    EXPECT_EQ(own.front(), order.group_starts[static_cast<std::size_t>(g)]);
    EXPECT_EQ(own.back() + 1, order.group_starts[static_cast<std::size_t>(g) + 1]);
    EXPECT_EQ(static_cast<std::int32_t>(own.size()), own.back() + 1 - own.front());
  }
}

TEST(WindowLists, HoldTheOwnTileAndThenTheNearestUpToTheShare) {
  const TokenOrder order = tile_order({5, 6, 9}, {2, 3, 4});
  for (const double share : {0.0, 0.2, 0.5, 1.0}) {
    const KeyLists lists = window_lists(order, 1, 2, share);
    for (std::int64_t g = 0; g < order.groups(); ++g) {
      const std::int64_t first = order.group_starts[static_cast<std::size_t>(g)];
      const std::int64_t size = order.group_starts[static_cast<std::size_t>(g) + 1] - first;
      const auto tokens = tokens_of(lists, 0, 1, g);
      EXPECT_EQ(static_cast<std::int64_t>(tokens.size()),
                std::max(size, static_cast<std::int64_t>(std::ceil(share * 270))));
      std::array<double, 3> middle{};
      for (std::int64_t i = first; i < first + size; ++i) {
        ASSERT_TRUE(tokens.contains(i));
        for (int axis = 0; axis < 3; ++axis) {
          middle[axis] += static_cast<double>(order.position(i)[axis]) / static_cast<double>(size);
        }
      }
      const auto distance = [&](std::int64_t token) {
        double sum = 0;
        for (int axis = 0; axis < 3; ++axis) {
          sum += std::pow(static_cast<double>(order.position(token)[axis]) - middle[axis], 2);
        }
        return sum;
      };
      double furthest = 0, nearest = 1e9;  // of those in the list, of those left out
      for (std::int64_t i = 0; i < 270; ++i) {
        if (i >= first && i < first + size) continue;
        if (tokens.contains(i)) {
          furthest = std::max(furthest, distance(i));
        } else {
          nearest = std::min(nearest, distance(i));
        }
      }
      EXPECT_LE(furthest, nearest + 1e-9);
    }
  }
}

TEST(RandomOwnLists, AreDrawnForEveryListAndFollowTheSeed) {
  const TokenOrder order = tile_order({8, 8, 8}, {4, 4, 4});
  const KeyLists lists = random_own_lists(order, 2, 2, 0.3, 1);
  EXPECT_TRUE(testing::same(lists, random_own_lists(order, 2, 2, 0.3, 1)));
  EXPECT_FALSE(testing::same(lists, random_own_lists(order, 2, 2, 0.3, 2)));
  std::set<std::set<std::int64_t>> different;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t g = 0; g < 8; ++g) {
      const auto tokens = tokens_of(lists, i / 2, i % 2, g);
      EXPECT_LE(tokens.size(), 154u);
      EXPECT_GE(tokens.size(), 130u);  // some are drawn from the own tile
      for (std::int64_t own = 64 * g; own < 64 * (g + 1); ++own) EXPECT_TRUE(tokens.contains(own));
      different.insert(tokens);
    }
  }
  EXPECT_EQ(different.size(), 32u);
  EXPECT_TRUE(testing::same(random_own_lists(order, 1, 1, 0.01, 1), own_lists(order, 1, 1))) << "below one tile";
}

}  // namespace
}  // namespace reel::sparsity
