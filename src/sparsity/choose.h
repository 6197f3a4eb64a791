// The keys of every query group of some heads: low-rank queries and keys, selection, own tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/key_lists.h"
#include "base/threads.h"
#include "sparsity/closed_form.h"
#include "sparsity/order.h"

namespace reel::sparsity {

// out [count][rank] (row stride out_stride) = rows [count][dim] (row stride `stride`) times a projection [dim][rank].
void project(const float* rows, std::int64_t stride, std::int64_t count, const std::vector<float>& projection,
             const LowRank& low, float* out, std::int64_t out_stride, Threads& threads);

struct ChosenHead {
  std::int64_t head = 0;
  const LowRank* low = nullptr;
  std::int64_t keep = 0;  // keys a group, own tile not counted
};

struct ChooseInput {
  const TokenOrder* order = nullptr;
  std::int64_t batch = 1, heads = 0, head_dim = 0;
  const float* q = nullptr;  // [batch][tokens][heads][head_dim], tokens in tile order
  const float* k = nullptr;
  std::int64_t samples = 16;
  std::span<const std::int32_t> sampled;  // sample_queries(order, samples)
  std::vector<ChosenHead> members;
};

// Lists of `members.size()` heads, in their order, with the own tile. No heads at all where a prediction is not finite.
attention::KeyLists choose_keys(const ChooseInput& in, Threads& threads);

}  // namespace reel::sparsity
