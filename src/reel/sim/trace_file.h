// The timeline of a job as a Chrome trace: a process for each chosen rank, a thread for each of its streams, its memory
// as a counter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/sim/simulate.h"

namespace reel::sim {

// `ranks` empty: one rank for each class, all that differ. Ranks of one class have the same times.
void write_trace(const Job& job, const cost::Cluster& cluster, const Options& options, std::vector<std::int64_t> ranks,
                 const std::string& path);

}  // namespace reel::sim
