// The keys of query groups of some heads: predicted queries and keys, and selection. Lists hold the group's own tile.
//
// Whoever has all tokens of the clips at hand calls choose_keys(seen, ...). On many ranks each predicts for its own
// tokens, and chooses for the heads and groups that it computes, once it has their low-rank queries and the low-rank
// keys of all tokens; the lists are those of one rank, to the bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/lists/key_lists.h"
#include "reel/lists/order.h"
#include "reel/predict/predictor.h"

namespace reel::predict {

// Low-rank queries and keys of some heads: [batch][heads][rows][rank] and [batch][heads][tokens][rank].
struct Predicted {
  std::int64_t batch = 1, rank = 0;
  Buffer<float> q, k;
};

// Queries of the tokens `rows` (counted from the first one at hand) and keys of all tokens at hand. Their rank is the
// largest of these heads.
Predicted predict_heads(const Predictor& predictor, const Seen& seen, std::span<const std::int64_t> heads,
                        std::span<const std::int32_t> rows, Threads& threads);

// The largest magnitude of the queries and that of the keys; infinite where a number is not finite.
std::array<double, 2> largest_magnitudes(const Predicted& low, Threads& threads);
// Whether scores of such queries and keys are numbers: finite ones may still have products beyond f32.
bool scores_are_finite(const std::array<double, 2>& largest, std::int64_t rank);

struct ChosenHead {
  std::int64_t head = 0;
  std::int64_t keep = 0;  // entries a list; all: dense
};

struct ChooseInput {
  const lists::TokenOrder* order = nullptr;
  std::int64_t head_dim = 0;
  std::int64_t samples = 16;
  int granularity = 1;                   // 1 or kTileKeys
  std::span<const std::int32_t> always;  // tokens that every list holds in addition to its own tile, ascending
  // false: mandatory entries count towards `keep`, and a list is longer only where they alone exceed it. true: `keep`
  // entries come on top of them.
  bool beside = false;
  std::vector<ChosenHead> members;
  std::int64_t first_group = 0, last_group = 0;  // the groups to choose for; 0, 0: all
};

// Lists of `members.size()` heads, in their order: their low-rank queries are those of lists::sample_queries(order,
// samples) of the groups to choose for, their keys those of all tokens. Scores must be finite.
lists::KeyLists choose_keys(const Predicted& low, const ChooseInput& in, Threads& threads);

// The same where all tokens of the clips are at hand; `sampled` is lists::sample_queries(order, samples). No heads at
// all where a predicted score is not finite.
lists::KeyLists choose_keys(const Predictor& predictor, const Seen& seen, std::span<const std::int32_t> sampled,
                            const ChooseInput& in, Threads& threads);

}  // namespace reel::predict
