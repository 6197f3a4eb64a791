// The keys of every query group of some heads: predicted queries and keys, selection, own tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/key_lists.h"
#include "base/threads.h"
#include "sparsity/order.h"
#include "sparsity/predictor.h"

namespace reel::sparsity {

struct ChosenHead {
  std::int64_t head = 0;
  std::int64_t keep = 0;  // entries a group, what is always kept not counted
};

struct ChooseInput {
  const TokenOrder* order = nullptr;
  const Predictor* predictor = nullptr;
  std::int64_t head_dim = 0;
  std::int64_t samples = 16;
  int granularity = 1;                    // 1 or kTileKeys
  std::span<const std::int32_t> sampled;  // sample_queries(order, samples)
  std::span<const std::int32_t> always;   // keys that every list holds beside its own tile, ascending
  std::vector<ChosenHead> members;
};

// Lists of `members.size()` heads, in their order. No heads at all where a predicted score is not finite.
attention::KeyLists choose_keys(const Seen& seen, const ChooseInput& in, Threads& threads);

}  // namespace reel::sparsity
