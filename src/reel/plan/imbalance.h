// How badly work is spread: the sparse imbalance ratio of db-SP (arXiv 2511.23113), and the same without waiting.
//
//   rho_s = sum over ring steps of the slowest rank's work in that step, over the mean work of a rank
//
// 1 is perfect. The slowest is taken over all ranks: a ring that waits after each step takes rho_s times as long as
// work that is spread evenly. Where nobody waits between steps (keys gathered at once, or sent ahead), what counts is
// the rank that has most in all: rho_no_barrier, never larger.
#pragma once

#include <vector>

#include "reel/base/sized.h"
#include "reel/plan/partition.h"

namespace reel::plan {

// work[(u * ring + i) * ring + j]: what rank (u, i) does while it has the keys of position j.
struct Tiles {
  int ulysses = 1, ring = 1;
  std::vector<double> work;

  double at(int u, int i, int j) const { return work[sized((u * ring + i) * ring + j)]; }
  double total() const;
  std::vector<double> ranks() const;  // by number of the rank (partition.h)
};

Tiles tiles(const Counts& work, const Partition& partition);
double rho(const Tiles& tiles);
double rho_no_barrier(const Tiles& tiles);

}  // namespace reel::plan
