// Distillation of attention: how scores made of a few numbers have to change to weigh the keys as the true ones do.
//
//   loss = mean over heads and queries of KL(softmax(q k^T / sqrt(head_dim)) || softmax(low_q low_k^T /
//   sqrt(head_dim)))
//
// q and k are constants. Some queries are enough; the keys are all there are. A softmax does not see what is the same
// for all keys of a query, and neither does the choice of keys.
#pragma once

#include <cstdint>

#include "reel/base/threads.h"

namespace reel::predict {

struct DistilInput {
  std::int64_t heads = 0, head_dim = 0, rank = 0, queries = 0, keys = 0;
  const float* q = nullptr;      // [queries][heads][head_dim]
  const float* k = nullptr;      // [keys][heads][head_dim]
  const float* low_q = nullptr;  // [queries][heads][rank]
  const float* low_k = nullptr;  // [keys][heads][rank]
};

// The gradients of the loss, laid out as low_q and low_k; overwritten.
void distil(const DistilInput& in, float* dlow_q, float* dlow_k, Threads& threads);

}  // namespace reel::predict
