// Parts of key lists: those of some batch items, heads and queries.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/lists/key_lists.h"

namespace reel::lists {

// Lists of the batch items `items` (null: all of them), heads [first_head, last_head) and queries [first,
// last), counted from the first of each; all keys. A group that a range cuts through keeps its list for its share of
// the queries.
struct ListsPart {
  const std::vector<std::int64_t>* items = nullptr;
  std::int64_t first_head = 0, last_head = 0;
  std::int64_t first = 0, last = 0;
};
KeyLists part_of(const KeyLists& lists, const ListsPart& part);

// The same lists with single tokens as entries: ranges of keys need not end where tiles do.
KeyLists as_tokens(const KeyLists& lists);

// Whether any query of [first, last) attends to any key of [begin, end). `lists` null: all keys.
bool any_pair(const KeyLists* lists, std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end);

}  // namespace reel::lists
