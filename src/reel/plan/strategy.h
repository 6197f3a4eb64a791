// Every way to spread one attention layer over the ranks of a cluster, with the time it would take and where that goes.
//
// A strategy is what `--parallel` takes (layout/degrees.h): ulysses x ring or ulysses x gather = ranks, the one named
// first inside nodes. Heads are exchanged within groups of `ulysses` ranks (DSV's HCP), then keys: around a ring while
// computing (db-SP's USP), or by selective gather before computing (DSV's SCP). For each the partition of planner.h is
// priced, and the same with rows and keys where they are; the quicker one is kept.
//
// One forward pass in bf16. time = heads + rows + keys + compute + waiting:
//   heads    all-to-alls of q, k, v and of the output, as long as the rank with most heads takes
//   rows     moving blocks to the positions of the plan, and outputs back
//   keys     ring: what a step's transfer takes longer than its computation; gather: requests, then k and v
//   compute  mean work of a rank (a ring visits its groups once a step), and starting the kernels
//   waiting  for the slowest rank: in every ring step, or once
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/layout/degrees.h"
#include "reel/plan/planner.h"

namespace reel::plan {

struct Setting {
  const cost::Cluster& cluster;
  int ranks = 1;
  std::int64_t head_dim = 128;
  double memory = 0;  // bytes a rank may use for the layer's attention; 0: as much as a device has
};

struct Strategy {
  layout::Degrees degrees;
  Partition partition;
  double rho = 1, rho_contiguous = 1;  // as the exchange waits: rho_s for a ring, without barrier for a gather
  double heads_seconds = 0, rows_seconds = 0, keys_seconds = 0, compute_seconds = 0, waiting_seconds = 0;
  double bytes = 0;   // sent by all ranks together
  double memory = 0;  // most that a rank holds: q, k, v, output, keys that travel, lists
  bool fits = true;

  double seconds() const { return heads_seconds + rows_seconds + keys_seconds + compute_seconds + waiting_seconds; }
  bool gathers() const { return degrees.gather > 1; }
  std::string name() const;  // "ulysses=4,ring=2", "gather=2,ulysses=4"; "one rank"
};

// All of them, those that fit first, quickest first. `work` counted from these lists with the cluster's group_cost.
// Ulysses degrees above the number of heads are left out. An Error where the ranks cannot be placed on nodes.
std::vector<Strategy> compare(const lists::KeyLists& lists, const Counts& work, const Setting& setting);

// Why `a` is predicted to be quicker than `b`, in a sentence with the parts that differ most.
std::string explain(const Strategy& a, const Strategy& b);

}  // namespace reel::plan
