// The keys of every query group of some heads: predicted queries and keys, and selection. Lists hold the group's own
// tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/lists/key_lists.h"
#include "reel/lists/order.h"
#include "reel/predict/predictor.h"

namespace reel::predict {

struct ChosenHead {
  std::int64_t head = 0;
  std::int64_t keep = 0;  // entries a list; all: dense
};

struct ChooseInput {
  const lists::TokenOrder* order = nullptr;
  const Predictor* predictor = nullptr;
  std::int64_t head_dim = 0;
  std::int64_t samples = 16;
  int granularity = 1;                    // 1 or kTileKeys
  std::span<const std::int32_t> sampled;  // lists::sample_queries(order, samples)
  std::span<const std::int32_t> always;   // tokens that every list holds beside its own tile, ascending
  // `keep` counts what every list holds, which is exceeded only where that is more, or the entries beside it.
  bool beside = false;
  std::vector<ChosenHead> members;
  bool again = false;  // chosen before from the same q and k: their scores are known to be finite
};

// What predict() gives for all tokens, on every rank of a sequence group; `rows` are counted over all tokens.
struct Predicted {
  Buffer<float> q, k;
};
Predicted predict_all(const Predictor& predictor, const Seen& seen, std::span<const std::int64_t> heads,
                      std::span<const std::int32_t> rows, std::int64_t rank, Threads& threads);

// Lists of `members.size()` heads, in their order, of all tokens of the clips here. No heads at all where a predicted
// score is not finite, on any rank.
lists::KeyLists choose_keys(const Seen& seen, const ChooseInput& in, Threads& threads);

}  // namespace reel::predict
