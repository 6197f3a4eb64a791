// Parts of key lists: those of some batch items, heads and queries.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/attention/key_lists.h"
#include "reel/comm/comm.h"

namespace reel::parallel {

// Lists of the batch items `items` (null: all of them), heads [first_head, last_head) and queries [first,
// last), counted from the first of each; all keys. A group that a range cuts through keeps its list for its share of
// the queries.
struct ListsPart {
  const std::vector<std::int64_t>* items = nullptr;
  std::int64_t first_head = 0, last_head = 0;
  std::int64_t first = 0, last = 0;
};
attention::KeyLists part_of(const attention::KeyLists& lists, const ListsPart& part);

// The lists of all ranks of a group, whose own ones are of some batch items each: those of all items, in rank order, on
// every rank.
attention::KeyLists gather_items(comm::Comm& group, const attention::KeyLists& own, const comm::Where& where);

// The same lists with single tokens as entries: ranges of keys need not end where tiles do.
attention::KeyLists as_tokens(const attention::KeyLists& lists);

// Whether any query of [first, last) attends to any key of [begin, end). `lists` null: all keys.
bool any_pair(const attention::KeyLists* lists, std::int64_t first, std::int64_t last, std::int64_t begin,
              std::int64_t end);

}  // namespace reel::parallel
