// Makes a Partition: heads by work, then the rows of each Ulysses group by the work of its own heads.
//
// Heads are dealt longest first, with equal counts and with any, and improved by exchanges; the better one is taken,
// equal counts where both are as good. Rows and keys start where they are, and are exchanged only until the target is
// reached: what need not move stays. What is balanced follows from how keys travel:
//
//   kRing    everybody waits after each step: the ring x ring tiles of (rows, keys) must all be alike, which needs keys
//            to be dealt as well where some are wanted more than others
//   kGather  all keys a rank needs are there before it begins: only the sums of rows count, keys stay
//
// Any number of heads, rows, columns and ranks; fewer of something than ranks leaves some without.
#pragma once

#include "reel/plan/partition.h"

namespace reel::plan {

enum class Exchange { kRing, kGather };

struct Options {
  int ulysses = 1, ring = 1;
  Exchange exchange = Exchange::kRing;
  bool equal_heads = false;  // as many heads for each Ulysses group, as plain all-to-alls need it
  // A ratio (balance.h) that is good enough for each of heads, rows and keys. Larger: fewer blocks move. 1: as even as
  // can be found, but for rows 1.0002, and with a ring 1.002.
  double target = 1;
  const Partition* present = nullptr;  // to begin with; none: contiguous
};

Partition make_partition(const Counts& work, const Options& options);

// The heads alone: group of each.
Indices deal_heads(const Counts& work, const Options& options);

// Whichever ulysses x ring = ranks: the largest Ulysses degree (the fewest bytes, the fewest steps) with rho of at most
// 1.02, or the one of the smallest rho.
Partition choose_partition(const Counts& work, int ranks, const Options& options);

}  // namespace reel::plan
