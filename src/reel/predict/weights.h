// Weights of keys: the softmax rows of some queries, and what they say about which keys count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/lists/key_lists.h"

namespace reel::predict {

// Rows of queries and of keys, with strides in floats; scores are scale * q k^T.
struct ScoreInput {
  const float* q = nullptr;
  const float* k = nullptr;
  std::int64_t q_stride = 0, k_stride = 0;
  std::int64_t queries = 0, keys = 0, depth = 0;
  float scale = 1;
};
Buffer<float> scores_of(const ScoreInput& in, Threads& threads);  // [queries][keys]
// softmax of the scores: [queries][keys].
Buffer<float> softmax_rows(const ScoreInput& in, Threads& threads);

// The weight of each key for a group of queries: the sum of their rows.
Buffer<float> group_weights(const Buffer<float>& rows, std::int64_t keys, Threads& threads);

// Weights of blocks of `size` consecutive keys, the last one short.
std::vector<float> block_sums(std::span<const float> weights, std::size_t size = lists::kTileKeys);

// The smallest number of weights (of positive numbers) whose sum reaches `share` of all, largest first; to within the
// width of a bucket (1/128 of a value). `order` decides which come first where given, else the weights themselves.
double keys_for_mass(std::span<const float> weights, std::span<const float> order, double share);
// The share of the sum of `weights` that the `count` first in `order` carry.
double mass_of_keys(std::span<const float> weights, std::span<const float> order, double count);

// The share of the `count` largest of `truth` that are among the `count` largest of `predicted`.
double recall(std::span<const float> truth, std::span<const float> predicted, std::size_t count);

// The `count` largest, ascending by index; of equal ones the lower index.
std::vector<std::int32_t> largest(std::span<const float> values, std::size_t count);

// Four queries of a group, evenly spread over its softmax rows: means.
struct QueryLook {
  double sparsity = 0;  // keys that a query does not need for the mass, as a share
  double overlap = 0;   // its critical keys that are critical for the group's first query, too; 1 for a single query
};
QueryLook look_at_queries(const Buffer<float>& rows, std::int64_t keys, double mass);

}  // namespace reel::predict
