#include "reel/lists/parts.h"

#include <gtest/gtest.h>

#include <set>

namespace reel::lists {
namespace {

// (item, head, query, key) of all pairs.
using Pairs = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>>;

Pairs pairs_of(const KeyLists& lists) {
  Pairs pairs;
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    for (std::int64_t h = 0; h < lists.heads; ++h) {
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        const auto i = static_cast<std::size_t>(g);
        std::set<std::int64_t> keys;
        for (std::int64_t key = 0; key < lists.keys_tokens && lists.dense(b, h); ++key) keys.insert(key);
        for (const std::int32_t entry : lists.list(b, h, g)) {
          for (std::int64_t key = entry * std::int64_t{lists.granularity};
               key < std::min<std::int64_t>((entry + 1) * std::int64_t{lists.granularity}, lists.keys_tokens); ++key) {
            keys.insert(key);
          }
        }
        for (std::int64_t q = lists.group_starts[i]; q < lists.group_starts[i + 1]; ++q) {
          for (const std::int64_t key : keys) pairs.insert({b, h, q, key});
        }
      }
    }
  }
  return pairs;
}

KeyLists some_lists(int granularity) { return random_lists(3, 2, 150, uniform_groups(23, 5), 0.4, granularity, 11); }

TEST(Lists, PartsHaveThePairsOfTheWhole) {
  for (const int granularity : {1, kTileKeys}) {
    const KeyLists all = some_lists(granularity);
    const std::vector<std::int64_t> items = {2, 0};
    for (const auto& [first, last] :
         {std::pair<std::int64_t, std::int64_t>{0, 23}, {3, 14}, {5, 10}, {22, 23}, {7, 7}}) {
      const KeyLists part = part_of(all, {&items, 1, 2, first, last});
      Pairs expected;
      for (const auto& [b, h, q, key] : pairs_of(all)) {
        if (b == 1 || h != 1 || q < first || q >= last) continue;
        expected.insert({b == 2 ? 0 : 1, 0, q - first, key});
      }
      EXPECT_EQ(pairs_of(part), expected) << first << " to " << last;
    }
    EXPECT_EQ(part_of(all, {nullptr, 0, 0, 0, 23}).heads, 0);
  }
}

TEST(Lists, TilesAsTokensAreTheSamePairs) {
  const KeyLists tiles = some_lists(kTileKeys), tokens = as_tokens(tiles);
  EXPECT_EQ(tokens.granularity, 1);
  EXPECT_EQ(pairs_of(tokens), pairs_of(tiles));
}

TEST(Lists, AnyPairIsThereOrNot) {
  const KeyLists lists = random_lists(2, 2, 40, uniform_groups(12, 5), 0.03, 1, 5);
  const Pairs pairs = pairs_of(lists);
  for (std::int64_t first = 0; first <= 12; first += 3) {
    for (std::int64_t begin = 0; begin < 40; begin += 7) {
      bool any = false;
      for (const auto& [b, h, q, key] : pairs)
        any = any || (q >= first && q < first + 2 && key >= begin && key < begin + 5);
      EXPECT_EQ(
          any_pair(&lists, first, std::min<std::int64_t>(12, first + 2), begin, std::min<std::int64_t>(40, begin + 5)),
          any);
    }
  }
  EXPECT_TRUE(any_pair(nullptr, 0, 1, 0, 1));
  EXPECT_FALSE(any_pair(nullptr, 1, 1, 0, 1));
}

}  // namespace
}  // namespace reel::lists
