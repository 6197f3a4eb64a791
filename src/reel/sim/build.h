// From a job to a workload: the programs of all ranks, priced on a cluster, and the memory they take.
#pragma once

#include <vector>

#include "reel/sim/builder.h"
#include "reel/sim/job.h"
#include "reel/sim/workload.h"

namespace reel::sim {

struct Memory {  // bytes of a rank
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // at most, with what layers need while they run
  double peak() const { return weights + gradients + optimizer + activations; }
};

struct Built {
  Workload workload;
  std::vector<Memory> memory;                 // of each program
  std::int64_t priced = 0, extrapolated = 0;  // collectives; those beyond what the fabric's constants were fitted on
};

Built build(const Job& job, const cost::Cluster& cluster, const Measured& measured = {});

// Memory held by a program after each of its steps and at most, walking its order; the programs' blocks say what they
// keep and need.
double peak_bytes(const Program& program);

}  // namespace reel::sim
