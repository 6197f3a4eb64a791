// A job on a cluster: how long a step takes, what it is made of, whether it fits, and how far that can be trusted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reel/base/sized.h"
#include "reel/cost/cluster.h"
#include "reel/sim/build.h"
#include "reel/sim/job.h"
#include "reel/sim/timeline.h"

namespace reel::sim {

// A part of the step (of the critical rank's) and what its prediction rests on.
struct Trust {
  std::string part;    // "matrix products", "collectives"
  double seconds = 0;  // of the step; exposed and hidden
  cost::Origin origin;
};

struct Price {
  double step = 0, run = 0, billion_tokens = 0;
};

struct Result {
  double step_seconds = 0;
  double tokens_per_second_per_device = 0;
  double model_flops_utilisation = 0;  // of the peak of the job's precision
  Memory memory;                       // of the rank that needs most
  std::int64_t memory_rank = 0;
  double device_memory = 0;  // bytes that a job may use
  bool fits = true;
  std::vector<std::string> advice;  // what would help where it does not fit
  Breakdown breakdown{};            // of the critical rank; sums to the step
  std::int64_t critical_rank = 0;
  double beside_seconds = 0, lost_seconds = 0;  // compute of the critical rank beside communication; what that cost it
  std::int64_t devices = 0, classes = 0, tasks = 0;
  std::vector<Trust> trust;
  double extrapolated = 0;  // share of the collectives beyond what the fabric's constants were fitted on
  // Mean relative error of such predictions on the validation tables; nothing where no step of this kind was compared.
  // Then `error_guess` is the error of the nearest kind that was, a guess.
  std::optional<double> error_band;
  double error_guess = 0;
  std::string error_source;
  std::optional<Price> price;  // where Options has one
  double simulate_seconds = 0;

  double breakdown_seconds(Category category) const { return seconds(breakdown[sized(category)]); }
};

struct Options {
  bool fold = true;
  bool advise = false;  // where it does not fit, look for what would help (several times the work)
  Measured measured;
  double per_device_hour = 0, steps = 0;  // for Result::price; 0: none
};

// Bytes of a device that are not the job's: the driver's context, NCCL's buffers, fragments of the allocator.
inline constexpr double kReservedBytes = 2.0 * (1 << 30);

// What a job is where it says nothing, on this cluster: attention is fused where the cluster's software had that.
Job defaults(const cost::Cluster& cluster);

Result simulate(const Job& job, const cost::Cluster& cluster, const Options& options = {});

// What a step takes at least: the work of a stage's compute stream, and for the last stage of a pipeline the way of
// the first micro-batch to it and of the last one back. Cheap: nothing is played through.
struct Outlook {
  bool fits = false;
  double least_seconds = 0;
};
Outlook look_ahead(const Job& job, const cost::Cluster& cluster, const Options& options = {});

}  // namespace reel::sim
