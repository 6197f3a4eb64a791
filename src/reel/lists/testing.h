// What tests of lists share. For tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "reel/base/random.h"
#include "reel/lists/key_lists.h"

namespace reel::lists::testing {

inline std::set<std::int64_t> tokens_of(const KeyLists& lists, std::int64_t b, std::int64_t h, std::int64_t g) {
  std::vector<std::int32_t> tokens;
  lists.tokens(b, h, g, tokens);
  return {tokens.begin(), tokens.end()};
}

inline bool same(const KeyLists& a, const KeyLists& b) {
  return a.batch == b.batch && a.heads == b.heads && a.keys_tokens == b.keys_tokens && a.granularity == b.granularity &&
         a.group_starts == b.group_starts && a.offsets == b.offsets && a.keys == b.keys &&
         a.dense_heads == b.dense_heads;
}

// A part of lists: some items, heads and groups, of their queries (in that order) [first, last), and keys [begin, end).
struct Part {
  std::vector<std::int32_t> items, heads, groups;
  std::int64_t first, last, begin, end;
};

// What a view of that part should show, token by token: slow and obvious.
inline KeyLists copied_part(const KeyLists& all, const Part& part) {
  std::vector<std::int32_t> starts{0}, groups;
  std::int64_t query = 0;
  for (const std::int32_t g : part.groups) {
    std::int32_t inside = 0;
    for (std::int32_t q = all.group_starts[static_cast<std::size_t>(g)];
         q < all.group_starts[static_cast<std::size_t>(g) + 1]; ++q, ++query) {
      if (query >= part.first && query < part.last) ++inside;
    }
    if (inside == 0) continue;
    groups.push_back(g);
    starts.push_back(starts.back() + inside);
  }
  KeyListsBuilder builder(static_cast<std::int64_t>(part.items.size()), static_cast<std::int64_t>(part.heads.size()),
                          part.end - part.begin, starts);
  for (const std::int32_t b : part.items) {
    for (const std::int32_t h : part.heads) {
      if (all.dense(b, h)) {
        builder.add_dense_head();
        continue;
      }
      for (const std::int32_t g : groups) {
        std::vector<std::int32_t> keys;
        for (const std::int64_t key : tokens_of(all, b, h, g)) {
          if (key >= part.begin && key < part.end) keys.push_back(static_cast<std::int32_t>(key - part.begin));
        }
        builder.add(keys);
      }
    }
  }
  return builder.finish();
}

// Lists of every kind at once: heads that are dense, lists that are empty, of one key, of all keys, runs and random
// keys; groups of ragged sizes.
inline KeyLists mixed_lists(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                            int granularity, std::uint64_t seed) {
  const Random random(seed, 77);
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(n)));
  };
  std::vector<std::int32_t> starts{0};
  const std::int64_t largest_group = 1 + below(std::max<std::int64_t>(1, queries));
  while (starts.back() < queries) {
    starts.push_back(static_cast<std::int32_t>(std::min(queries, starts.back() + 1 + below(largest_group))));
  }
  KeyListsBuilder builder(batch, heads, keys, starts, granularity);
  const std::int64_t entries = (keys + granularity - 1) / granularity;
  for (std::int64_t head = 0; head < batch * heads; ++head) {
    if (below(5) == 0) {
      builder.add_dense_head();
      continue;
    }
    for (std::size_t g = 0; g + 1 < starts.size(); ++g) {
      std::vector<std::int32_t> list;
      const std::int64_t kind = entries == 0 ? 0 : below(6);
      const std::int64_t from = entries == 0 ? 0 : below(entries), share = 1 + below(100);
      for (std::int64_t e = 0; e < entries; ++e) {
        const bool take = kind == 1   ? e == from
                          : kind == 2 ? true
                          : kind == 3 ? e >= from && e < from + entries / 4 + 1
                          : kind >= 4 ? below(100) < share
                                      : false;
        if (take) list.push_back(static_cast<std::int32_t>(e));
      }
      builder.add(list);
    }
  }
  return builder.finish();
}

}  // namespace reel::lists::testing
