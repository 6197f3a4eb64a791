// Bringing together what lies over the ranks of a group, where it is no part of the model's graph: numbers, and key
// lists. All ranks of the group call the same function; each of them gets the result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/sized.h"
#include "reel/comm/comm.h"
#include "reel/layout/cut.h"
#include "reel/lists/key_lists.h"
#include "reel/parallel/attention.h"

namespace reel::parallel {

// values[i] = the largest values[i] of any rank.
void largest(comm::Comm& group, std::span<double> values, const comm::Where& where);

// What every rank has, in rank order: rank r has counts[r] values.
template <class T>
std::vector<T> gather_blocks(comm::Comm& group, std::span<const T> own, std::span<const std::int64_t> counts,
                             const comm::Where& where) {
  std::vector<std::int64_t> bytes;
  std::int64_t all = 0;
  for (const std::int64_t count : counts) bytes.push_back(count * std::int64_t{sizeof(T)}), all += count;
  std::vector<T> gathered(sized(all));
  group.all_gather_v(own.data(), gathered.data(), bytes, where);
  return gathered;
}

// The lists of all batch items, from ranks that have the lists of some items each, in rank order.
lists::KeyLists gather_items(comm::Comm& group, const lists::KeyLists& own, const comm::Where& where);

// The lists of all heads and groups, from ranks that have the lists of some heads and groups each. `heads` and `groups`
// say which ones rank r has; group g has starts[g + 1] - starts[g] queries.
struct Had {
  std::int64_t first_head = 0, last_head = 0, first_group = 0, last_group = 0;
};
lists::KeyLists gather_shares(comm::Comm& group, const lists::KeyLists& own, std::span<const Had> had,
                              const std::vector<std::int32_t>& group_starts, const comm::Where& where);

}  // namespace reel::parallel
