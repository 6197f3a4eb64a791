// What the true scores say about a head, on a few query groups: how many keys carry the wanted mass, and how well the
// predictor finds them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "reel/attention/attention.h"
#include "reel/base/threads.h"

namespace reel::predict {

// Shares are of all keys; everything is a mean over the groups looked at. Where a true score is not finite, `covered`
// is NaN and the rest means nothing; a predictor whose scores are not finite finds keys as they come.
struct HeadProfile {
  double query_sparsity = 0;  // keys that a single query does not need for the mass (the paper's definition)
  double overlap = 0;         // critical keys of a query that are critical for the group's first query, too
  double needed = 0;          // keys of the best list of the group that carries the mass
  // For the predictor, with each of the given numbers of scored queries. Its lists hold the group's own tokens and
  // what is `always` kept; then they take keys in its order.
  struct Predicted {
    std::int64_t samples = 0;
    double needed = 0;        // keys on top of those that it holds in any case until the mass is reached
    double needed_tiles = 0;  // the same in whole tiles of 64 consecutive keys
    double covered = 0;       // mass of its list of the size asked for
    double recall = 0;        // share of the heaviest keys, as many as that, that are the first in its order
  };
  double covered = 0;  // mass of the best list of the size asked for that holds the same
  std::vector<Predicted> predicted;
};

struct ProfileInput {
  std::int64_t keys = 0, head_dim = 0, rank = 0;
  // One head: a row a token, in tile order, with strides in floats.
  const float* q = nullptr;
  const float* k = nullptr;
  std::int64_t q_stride = 0, k_stride = 0;
  float scale = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      groups;                            // the groups to look at: first and last + 1 of their tokens
  std::vector<std::int64_t> samples;     // choices of how many queries are scored
  std::span<const std::int32_t> always;  // keys that every list holds next to those of its own tokens, ascending
  // The predictor's keys, and its queries for each group and choice in turn: rows of `rank`. Null: no predictor yet.
  const float* low_q = nullptr;
  const float* low_k = nullptr;
  double mass = 0.9;
  double size = 0.1;  // of the lists whose coverage is asked for, as a share; at least what they hold in any case
};

HeadProfile profile_head(const ProfileInput& in, Threads& threads);

// The share of the true mass that lists cover, mean over their groups: [heads][batch], 1 for dense heads.
struct CoverageInput {
  std::int64_t batch = 1, first_head = 0, heads = 0, head_dim = 0;
  const float* q = nullptr;  // [batch][tokens][heads][head_dim], heads from the first on
  const float* k = nullptr;
  std::vector<std::int64_t> first_tokens = {};  // of each group of the lists
};
std::vector<double> coverage(const CoverageInput& in, const lists::KeyLists& lists, Threads& threads);

}  // namespace reel::predict
