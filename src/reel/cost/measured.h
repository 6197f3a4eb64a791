// Measured collectives: tables of nccl-tests results in the forms in which people keep them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reel/cost/cluster.h"
#include "reel/cost/collective.h"

namespace reel::cost {

struct MeasuredCall {
  Collective call;
  double seconds = 0;
};

// Reads one of
//   CSV with the columns op, devices, bytes, seconds and optionally per_node;
//   CSV as collected from nccl-tests: size_B, oop_time_us (or oop_time_ns), and gpus, ngpus or nodes and gpus_per_node;
//   optionally collective (all_reduce_perf); other columns do not count;
//   the text that nccl-tests prints, also of several runs one after the other: out-of-place times; the ranks that it
//   lists tell devices and nodes.
// `op` says what was measured where the file does not; "" where it has to. Left out: calls of one device, empty calls,
// and the first row of a series where it takes more than half as long again as the next, larger one: a warm-up.
std::vector<MeasuredCall> load_measured_calls(const std::string& path, const Cluster& cluster,
                                              const std::string& op = "");
std::vector<MeasuredCall> parse_measured_calls(std::string_view text, const std::string& name, const Cluster& cluster,
                                               const std::string& op = "");

}  // namespace reel::cost
