// How others deal, by name, so that "better" is a table and not a claim. What their papers mean, without the slips of
// their code, for any number of heads, rows and ranks. Each deals heads over Ulysses groups and rows over ring
// positions by its one rule, where a rule exists for both or not; keys only where noted.
//
//   contiguous      runs, nobody looks at the mask
//   zig-zag         2 n runs, position i takes run i and run 2n - 1 - i (ring attention for causal masks)
//   db-SP           longest first to the emptiest with room, equal counts; rows and keys of all heads together, with
//   the
//                   present position's load discounted by 2 times the block's own (arXiv 2511.23113)
//   MagiAttention   min-heap: longest first to the emptiest with room; keys follow the rows where both are alike
//   PyTorch PTRR    sorted by work, dealt to and fro; keys are gathered
//   DSV             heads longest first, any count (arXiv 2502.07590); queries stay where they are
#pragma once

#include <string>
#include <vector>

#include "reel/plan/partition.h"

namespace reel::plan {

struct Baseline {
  std::string name;
  Partition (*make)(const Counts& work, int ulysses, int ring);
};
const std::vector<Baseline>& baselines();

}  // namespace reel::plan
