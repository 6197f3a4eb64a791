// The order in which a pipeline stage runs the passes of its micro-batches: one forward, one backward (1F1B), plain or
// with several chunks of layers a stage (interleaved), as Megatron-LM schedules them (Narayanan et al. 2021).
#pragma once

#include <cstdint>
#include <vector>

namespace reel::sim {

struct Turn {
  bool forward = true;
  std::int32_t chunk = 0, micro_batch = 0;
  bool operator==(const Turn&) const = default;
};

// interleave > 1 needs micro_batches to be a multiple of stages.
std::vector<Turn> pipeline_order(std::int64_t stage, std::int64_t stages, std::int64_t interleave,
                                 std::int64_t micro_batches);

}  // namespace reel::sim
