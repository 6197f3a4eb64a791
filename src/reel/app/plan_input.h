// What `reel plan` reads: key lists or block masks, and what a query group costs.
#pragma once

#include <string>
#include <vector>

#include "reel/lists/ordered_lists.h"
#include "reel/plan/counts.h"

namespace reel::app {

struct PlanInput {
  std::string path;
  lists::OrderedLists lists;
  bool mask = false;          // the file had `mask`: blocks of 64 x 64 tokens
  std::int64_t head_dim = 0;  // of the lists, of the option, or assumed

  std::int64_t group_queries() const;  // of the largest group
};

// Key lists as lists/ordered_lists.h says, or `mask` [heads, query blocks, key blocks], bool or u8 (with a first
// dimension of 1 in front, too). `head_dim` is that of --head-dim, 0 where it was not given. What has to be assumed is
// said on standard error. An Error names the file and what is wrong with it.
// Where files are planned one after the other, `before` is the one in front: it answers what this one does not say, and
// its query groups have to be of the same tokens.
PlanInput read_plan_input(const std::string& path, std::int64_t head_dim, const PlanInput* before = nullptr);

struct Costing {
  plan::GroupCost cost;
  std::string text;  // "12.1 + 0.33 x keys ns, on this machine"
};

// A mask counts blocks. Lists: of the cluster, if one is named; else of the Machine file, where there is one that was
// measured on this CPU; else keys. The text says why.
Costing costing_of(const PlanInput& input, const std::string& cluster);

plan::Counts count_work(const PlanInput& input, const plan::GroupCost& cost, int ranks);

// The files that shell patterns name, numbers in names by their value: step-2 before step-10.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

}  // namespace reel::app
