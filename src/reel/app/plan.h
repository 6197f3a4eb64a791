// The parts of `reel plan`.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "reel/plan/planner.h"

namespace reel::app {

constexpr int kNotGiven = std::numeric_limits<int>::min();

struct PlanOptions {
  std::vector<std::string> files;
  int ranks = 0, ulysses = kNotGiven, ring = kNotGiven;
  std::string exchange = "ring";
  bool equal_heads = false;
  double limit = 0;                                             // 0: not given
  std::int64_t head_dim = 0;                                    // 0: not given
  double memory_gib = std::numeric_limits<double>::infinity();  // of a rank
  std::string cluster, json, report;
};

constexpr double kElementBytes = 2;  // bf16, as it is sent

// Degrees and exchange of the options; ulysses = ring = 0 where neither was given. An Error says which numbers would
// do.
plan::Options planner_options(const PlanOptions& options);

void plan_partition(const PlanOptions& options);
void plan_steps(const PlanOptions& options);
void plan_compare(const PlanOptions& options);

}  // namespace reel::app
