// Selective gather (DSV's sparse context parallelism): queries stay, each rank fetches the keys its queries attend to.
//
// Rank (u, i) of a partition needs, for each of its heads, the union of the lists of its rows. What lies at another
// ring position of its Ulysses group is sent, k and v, once; nothing else is.
#pragma once

#include "reel/base/sized.h"
#include "reel/plan/partition.h"

namespace reel::plan {

struct GatherPlan {
  int ulysses = 1, ring = 1;
  std::int64_t heads = 0;
  // [batch][heads][ring to][ring from]: entries of the lists (tokens or tiles, as KeyLists::granularity says) that
  // position `to` needs and position `from` holds, ascending. to = from: those at home, which do not travel.
  std::vector<Indices> entries;
  std::vector<double> bytes;          // [ulysses][ring to][ring from]: of k and v; 0 at home
  std::vector<std::int64_t> fetched;  // [ulysses][ring]: entries that arrive
  std::vector<double> memory;         // [ulysses][ring]: bytes of k and v that the queries read, those at home included

  const Indices& list(std::int64_t batch, std::int64_t head, int to, int from) const {
    return entries[sized(((batch * heads + head) * ring + to) * ring + from)];
  }
  double total_bytes() const;
  double most_bytes() const;  // that one rank sends or receives, whichever is more
  std::int64_t most_fetched() const;
  double most_memory() const;
};

GatherPlan plan_gather(const lists::KeyLists& lists, const Counts& work, const Partition& partition,
                       std::int64_t head_dim, double element_bytes);

}  // namespace reel::plan
