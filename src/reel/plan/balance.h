// Deals items into bins so that every bin gets about the same of everything.
//
// An item has a weight in each of `dims` dimensions. With one dimension a bin's load is a sum that nobody waits for in
// between (heads of a rank, rows where all keys are there at once). With as many dimensions as bins, dimension d of bin
// b is one tile of a ring: what position b computes with the keys of position d. Both are measured by one ratio:
//
//   sum over steps t of the largest load[b][(b + t) mod dims], over the mean load of a bin      1 is perfect
//
// Where several rings keep step with each other, steps must be alike, too, or one ring's long step meets another's
// short one: then each step counts as much as the longest (Items::alike).
//
// The search lowers the squared distance of the loads from their mean by exchanging two items or handing one over,
// which costs a few operations for each candidate; squares see all tiles, the ratio only the largest. Everything is
// deterministic: effort is counted in operations, not in time.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/plan/partition.h"

namespace reel::plan {

struct Items {
  std::int64_t count = 0;
  int dims = 1;
  std::vector<float> weight;  // [dims][count], 0 or more
  bool alike = false;
};

enum class Sizes {
  kEqual,  // of items in a bin: as equal as whole numbers can be
  kAny,
};

double ratio(const Items& items, int bins, const Indices& bin_of_item);

// Longest processing time first: items by descending weight, each to the bin (with room) that it fits best; with one
// dimension that is the emptiest.
Indices deal(const Items& items, int bins, Sizes counts);

struct Effort {
  double target = 1;        // a ratio that is good enough
  std::int64_t operations;  // to spend at most; what was spent is taken off
};

// Exchanges items between bins, beginning with `bins_of_items`, until the ratio is good enough or no exchange helps.
// From a ratio that is good enough nothing moves. Returns the ratio.
double refine(const Items& items, int bins, Sizes counts, Effort& effort, Indices& bin_of_item);

// refine, then shaken and refined again while there is effort left; keeps the best.
double search(const Items& items, int bins, Sizes counts, Effort& effort, Indices& bin_of_item);

}  // namespace reel::plan
