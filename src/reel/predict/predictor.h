// What finds the keys that matter before they are looked at: queries and keys of a few numbers each (`rank`), whose
// products stand for the scores of a head. Two kinds:
//
//   qk      projections of the layer's own q and k that follow from their moments (qk_predictor.h); nothing is trained
//   hidden  projections of what q and k are made of, the block's input, trained beside the model (hidden_predictor.h):
//           the way of the DSV paper
//
// A predictor is no part of the model's graph. What it learns from a pass it learns before that pass chooses its keys,
// and never when a recomputed part runs again, so that both runs choose the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reel/base/threads.h"
#include "reel/files/safetensors.h"
#include "reel/predict/ranks.h"
#include "reel/tape/operations.h"

namespace reel::predict {

struct ModelHeads {
  std::int64_t layers = 0, heads = 0, head_dim = 0;
};

// What q and k are made of: q = turned(normed(hidden wq^T + bq)), k likewise. Models that cannot say leave it empty.
struct Origin {
  tape::Tensor hidden;                                                    // [batch, tokens, width]
  const tape::Parameter *wq = nullptr, *bq = nullptr, *norm_q = nullptr;  // a null norm: none
  const tape::Parameter *wk = nullptr, *bk = nullptr, *norm_k = nullptr;
  const tape::RopeAngles* rope = nullptr;  // null: not turned
};

// All tokens of one clip, of the heads [first, first + count): [tokens][count][head_dim].
struct ClipHeads {
  std::int64_t first = 0, count = 0;
  const float* q = nullptr;
  const float* k = nullptr;
};

// One layer of one pass, as far as it is on this rank.
struct Seen {
  int layer = 0;
  std::int64_t batch = 1, tokens = 0;
  const float* q = nullptr;  // [batch][tokens][heads][head_dim], normed and turned, tokens in tile order
  const float* k = nullptr;
  const Origin* origin = nullptr;
  Ranks* ranks = nullptr;           // null: one rank, all tokens are here
  const ClipHeads* clip = nullptr;  // with ranks: what this one learns from; null where nothing is learnt

  std::int64_t first() const {
    return ranks != nullptr ? ranks->token_starts[static_cast<std::size_t>(ranks->rank)] : 0;
  }
  std::int64_t all_tokens() const { return ranks != nullptr ? ranks->token_starts.back() : tokens; }
  ClipHeads clip_of(const ModelHeads& shape) const { return clip != nullptr ? *clip : ClipHeads{0, shape.heads, q, k}; }
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  // Whether it can predict for this layer yet, and with how many numbers a query.
  virtual bool knows(int layer) const = 0;
  virtual std::int64_t rank(int layer, std::int64_t head) const = 0;

  // Queries of the tokens `rows` (counted from the first one here), and keys of all tokens here, of some heads: low_q
  // [batch][heads.size()][rows.size()][rank], low_k [batch][heads.size()][tokens][rank]. `rank` is at least that of
  // each head; numbers beyond that of a head are zeros. Scores are their products times 1 / sqrt(head_dim), as for q
  // and k. What a token gets has the same bits whatever other tokens are here.
  virtual void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
                       std::int64_t rank, float* low_q, float* low_k, Threads& threads) const = 0;

  // Whether it learns from passes that are not profiled, too.
  virtual bool learns_always() const = 0;
  // Once for every training pass of a layer that it learns from, whose q and k are finite; `profiled`: it is one of
  // those whose true scores are looked at. On many ranks all of them come to know the same.
  virtual void learn(const Seen& seen, bool profiled, Threads& threads) = 0;

  // For checkpoints: tensors by name.
  struct Saved {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  virtual std::vector<Saved> save() const = 0;
  virtual void load(const SafetensorsFile& file) = 0;
};

}  // namespace reel::predict
