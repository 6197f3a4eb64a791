#include "reel/lists/controls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/lists/testing.h"

namespace reel::lists {
namespace {

using testing::tokens_of;
using List = std::vector<std::int32_t>;

List list(const KeyLists& lists, std::int64_t b, std::int64_t h, std::int64_t g) {
  const auto found = lists.list(b, h, g);
  return {found.begin(), found.end()};
}

TEST(BudgetOf, IsNeverMoreThanTheShare) {
  EXPECT_EQ(budget_of(0.15, 1024), 153);
  EXPECT_EQ(budget_of(0.29, 100), 29) << "0.29 * 100 < 29";
  EXPECT_EQ(budget_of(0.1, 30), 3);
  EXPECT_EQ(budget_of(0.7, 10), 7);
  EXPECT_EQ(budget_of(0, 100), 0);
  EXPECT_EQ(budget_of(1, 100), 100);
  EXPECT_EQ(budget_of(0.001, 100), 0);
}

TEST(HeldTokens, AreTheOwnTileAndThoseAlwaysKeptOnce) {
  const TokenOrder order = tile_order({3, 2, 2}, {2, 2, 2});  // groups of 8 and 4
  EXPECT_EQ(held_tokens(order, 1, {}), (List{8, 9, 10, 11}));
  EXPECT_EQ(held_tokens(order, 1, List{0, 9, 11}), (List{0, 8, 9, 10, 11}));
  EXPECT_EQ(held_tokens(order, 0, List{11}), (List{0, 1, 2, 3, 4, 5, 6, 7, 11}));
}

// Ragged tiles, kept frames, budgets below what lists hold and near all keys.
TEST(Controls, FillTheBudgetExactly) {
  const TokenOrder order = tile_order({5, 6, 9}, {2, 4, 4});
  for (const std::vector<std::int64_t>& frames : {std::vector<std::int64_t>{}, {1}, {0, 4}}) {
    const List always = tokens_of_frames(order, frames);
    for (const double share : {0.0, 0.01, 0.1, 0.35, 0.5, 0.999, 1.0}) {
      const KeyLists window = window_lists(order, 2, 2, share, always);
      const KeyLists random = random_own_lists(order, 2, 2, share, 7, always);
      const KeyLists own = own_lists(order, 2, 2, always);
      for (std::int64_t i = 0; i < 4 * order.groups(); ++i) {
        const std::int64_t b = i / order.groups() / 2, h = i / order.groups() % 2, g = i % order.groups();
        const List held = held_tokens(order, g, always);
        const std::int64_t size = std::max(budget_of(share, 270), static_cast<std::int64_t>(held.size()));
        EXPECT_EQ(list(own, b, h, g), held);
        for (const KeyLists* each : {&window, &random}) {
          const List keys = list(*each, b, h, g);
          EXPECT_EQ(static_cast<std::int64_t>(keys.size()), size) << share;
          EXPECT_TRUE(std::includes(keys.begin(), keys.end(), held.begin(), held.end()));
        }
      }
    }
  }
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
      EXPECT_EQ(static_cast<std::int64_t>(tokens.size()), std::max(size, budget_of(share, 270)));
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
      EXPECT_EQ(tokens.size(), 153u);
      for (std::int64_t own = 64 * g; own < 64 * (g + 1); ++own) EXPECT_TRUE(tokens.contains(own));
      different.insert(tokens);
    }
  }
  EXPECT_EQ(different.size(), 32u);
  EXPECT_TRUE(testing::same(random_own_lists(order, 1, 1, 0.01, 1), own_lists(order, 1, 1))) << "below one tile";
}

TEST(RandomOwnLists, OfSomeItemsAreThoseOfAll) {
  const TokenOrder order = tile_order({5, 6, 9}, {2, 4, 4});
  const KeyLists all = random_own_lists(order, 5, 2, 0.4, 3), some = random_own_lists(order, 2, 2, 0.4, 3, {}, 3);
  for (std::int64_t i = 0; i < 2 * 2 * order.groups(); ++i) {
    const std::int64_t b = i / order.groups() / 2, h = i / order.groups() % 2, g = i % order.groups();
    EXPECT_EQ(list(some, b, h, g), list(all, b + 3, h, g));
  }
}

TEST(MixedItems, TakesHeadsAsTheyAre) {
  const TokenOrder order = tile_order({4, 4, 4}, {2, 4, 4});
  KeyListsBuilder builder(3, 2, order.tokens(), order.group_starts);
  for (int b = 0; b < 3; ++b) {
    builder.add_dense_head();
    for (std::int64_t g = 0; g < order.groups(); ++g) builder.add(List{b});
  }
  const KeyLists some = builder.finish(), others = own_lists(order, 3, 2);
  const KeyLists mixed = mixed_items(some, others, std::vector<std::uint8_t>{0, 1, 0});
  for (std::int64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(mixed.dense(b, 0), b != 1);
    EXPECT_EQ(list(mixed, b, 1, 1), list(b == 1 ? others : some, b, 1, 1));
  }
}

}  // namespace
}  // namespace reel::lists
