// Every legal way to cut a job over a number of devices, the fastest that fit in memory first.
//
// Tried: tensor x pipeline x data x context x expert (dit: ulysses x ring, dsp) x interleave x micro-batch x recompute;
// everything else is as the job says. Memory is checked first; of what fits, those are timed whose least time
// (look_ahead) is below that of the best found so far, so that no better one is missed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reel/sim/simulate.h"

namespace reel::sim {

struct Found {
  Job job;
  Result result;
};

struct SearchResult {
  std::vector<Found> best;  // by step_seconds
  std::int64_t legal = 0, fitting = 0, timed = 0;
};

// All candidates, before memory. `job` as read (before finish); Error where none is legal.
std::vector<Job> candidates(const Job& job, std::int64_t devices);

SearchResult search(const Job& job, const cost::Cluster& cluster, std::int64_t devices, std::size_t keep,
                    const Options& options, const std::function<void(std::int64_t done, std::int64_t all)>& progress);

}  // namespace reel::sim
