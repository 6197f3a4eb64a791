#include "reel/lists/parts.h"

#include <algorithm>

namespace reel::lists {

namespace {

// Groups of `lists` that have queries in [first, last).
std::vector<std::int64_t> groups_in(const KeyLists& lists, std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> groups;
  for (std::int64_t g = 0; g < lists.groups(); ++g) {
    const auto i = static_cast<std::size_t>(g);
    if (std::max<std::int64_t>(lists.group_starts[i], first) <
        std::min<std::int64_t>(lists.group_starts[i + 1], last)) {
      groups.push_back(g);
    }
  }
  return groups;
}

}  // namespace

KeyLists part_of(const KeyLists& lists, const ListsPart& part) {
  REEL_CHECK(part.first >= 0 && part.first <= part.last && part.last <= lists.queries());
  REEL_CHECK(part.first_head >= 0 && part.first_head <= part.last_head && part.last_head <= lists.heads);
  std::vector<std::int64_t> items;
  if (part.items != nullptr) {
    items = *part.items;
  } else {
    for (std::int64_t b = 0; b < lists.batch; ++b) items.push_back(b);
  }
  const std::vector<std::int64_t> groups = groups_in(lists, part.first, part.last);
  std::vector<std::int32_t> starts = {0};
  for (const std::int64_t g : groups) {
    const std::int64_t end = std::min<std::int64_t>(lists.group_starts[static_cast<std::size_t>(g) + 1], part.last);
    starts.push_back(static_cast<std::int32_t>(end - part.first));
  }
  KeyListsBuilder builder(static_cast<std::int64_t>(items.size()), part.last_head - part.first_head, lists.keys_tokens,
                          std::move(starts), lists.granularity);
  for (const std::int64_t b : items) {
    for (std::int64_t h = part.first_head; h < part.last_head; ++h) {
      if (lists.dense(b, h)) {
        builder.add_dense_head();
      } else {
        for (const std::int64_t g : groups) builder.add(lists.list(b, h, g));
      }
    }
  }
  return builder.finish();
}

KeyLists as_tokens(const KeyLists& lists) {
  if (lists.granularity == 1) return lists;
  KeyListsBuilder builder(lists.batch, lists.heads, lists.keys_tokens, lists.group_starts, 1);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < lists.batch * lists.heads; ++i) {
    if (lists.dense(i / lists.heads, i % lists.heads)) {
      builder.add_dense_head();
      continue;
    }
    for (std::int64_t g = 0; g < lists.groups(); ++g) {
      tokens.clear();
      for (const std::int32_t tile : lists.list(i / lists.heads, i % lists.heads, g)) {
        const std::int64_t end =
            std::min<std::int64_t>((tile + std::int64_t{1}) * lists.granularity, lists.keys_tokens);
        for (std::int64_t t = std::int64_t{tile} * lists.granularity; t < end; ++t) {
          tokens.push_back(static_cast<std::int32_t>(t));
        }
      }
      builder.add(tokens);
    }
  }
  return builder.finish();
}

bool any_pair(const KeyLists* lists, std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
  if (first >= last || begin >= end) return false;
  if (lists == nullptr) return true;
  REEL_CHECK(lists->granularity == 1);
  const std::vector<std::int64_t> groups = groups_in(*lists, first, last);
  for (std::int64_t b = 0; b < lists->batch; ++b) {
    for (std::int64_t h = 0; h < lists->heads; ++h) {
      if (lists->dense(b, h)) return true;
      for (const std::int64_t g : groups) {
        const auto list = lists->list(b, h, g);
        const auto key = std::lower_bound(list.begin(), list.end(), static_cast<std::int32_t>(begin));
        if (key != list.end() && *key < end) return true;
      }
    }
  }
  return false;
}

}  // namespace reel::lists
