#include "reel/sim/pipeline.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::sim {

std::vector<Turn> pipeline_order(std::int64_t stage, std::int64_t stages, std::int64_t interleave,
                                 std::int64_t micro_batches) {
  REEL_CHECK(interleave == 1 || micro_batches % stages == 0);
  const std::int64_t total = micro_batches * interleave;
  // Forward pass k: rounds of `stages` micro-batches through each chunk in turn. Backward takes the chunks in reverse.
  const auto pass = [&](std::int64_t k, bool forward) {
    if (interleave == 1) return Turn{forward, 0, static_cast<std::int32_t>(k)};
    const std::int64_t round = k / (stages * interleave), inside = k % (stages * interleave);
    const std::int64_t chunk = inside / stages;
    return Turn{forward, static_cast<std::int32_t>(forward ? chunk : interleave - 1 - chunk),
                static_cast<std::int32_t>(round * stages + inside % stages)};
  };
  std::int64_t ahead = stages - stage - 1;
  if (interleave > 1) ahead = micro_batches == stages ? total : 2 * ahead + (interleave - 1) * stages;
  ahead = std::min(ahead, total);
  std::vector<Turn> order;
  order.reserve(sized(2 * total));
  for (std::int64_t k = 0; k < ahead; ++k) order.push_back(pass(k, true));
  for (std::int64_t k = ahead; k < total; ++k) {
    order.push_back(pass(k, true));
    order.push_back(pass(k - ahead, false));
  }
  for (std::int64_t k = total - ahead; k < total; ++k) order.push_back(pass(k, false));
  return order;
}

}  // namespace reel::sim
