// What `reel plan` reads: key lists or block masks, and what a query group costs.
#pragma once

#include <string>
#include <vector>

#include "reel/lists/key_lists.h"
#include "reel/plan/counts.h"

namespace reel::app {

struct PlanInput {
  std::string path;
  lists::KeyLists lists;
  bool mask = false;  // the file had `mask`: blocks of 64 x 64 tokens

  std::int64_t group_queries() const;  // of the largest group
};

// Key lists as attention/key_lists.h says, or `mask` [heads, query blocks, key blocks], bool or u8 (with a first
// dimension of 1 in front, too). An Error names the file and what is wrong with it.
PlanInput read_plan_input(const std::string& path);

struct Costing {
  plan::GroupCost cost;
  std::string text;  // "12.1 + 0.33 x keys ns, on this machine"
};

// A mask counts blocks. Lists: of the cluster, if one is named; else of the Machine file, where there is one that was
// measured on this CPU; else keys. The text says why.
Costing costing_of(const PlanInput& input, const std::string& cluster, std::int64_t head_dim);

plan::Counts count_work(const PlanInput& input, const plan::GroupCost& cost, int ranks);

// The files that shell patterns name, numbers in names by their value: step-2 before step-10.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

}  // namespace reel::app
