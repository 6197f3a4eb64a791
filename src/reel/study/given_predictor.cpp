#include "reel/study/given_predictor.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/kernels/gather.h"

namespace reel::study {

void GivenPredictor::predict(const predict::Seen& seen, std::span<const std::int64_t> heads,
                             std::span<const std::int32_t> rows, std::int64_t rank, float* low_q, float* low_k,
                             Threads& threads) const {
  REEL_CHECK(seen.batch == 1 && heads.size() == 1 && rank == rank_);
  const auto width = static_cast<std::size_t>(rank), tokens = static_cast<std::size_t>(seen.tokens);
  kernels::gather_rows({low_q_, tokens, width}, rows, {low_q, rows.size(), width}, threads);
  std::copy_n(low_k_, tokens * width, low_k);
}

}  // namespace reel::study
