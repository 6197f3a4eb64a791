// What finds the keys that matter before they are looked at: queries and keys of a few numbers each (`rank`), whose
// products stand for the scores of a head. Two kinds:
//
//   qk      projections of the layer's own q and k that follow from their moments (qk_predictor.h); nothing is trained
//   hidden  projections of what q and k are made of, the block's input, trained next to the model (hidden_predictor.h):
//           the way of the DSV paper
//
// A predictor is no part of the model's graph. What it learns from a pass it learns before that pass chooses its keys,
// and never when a recomputed part runs again, so that both runs choose the same. A predictor knows nothing of ranks:
// whoever calls it says which tokens are at hand, and brings together what it wants to learn from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reel/base/threads.h"
#include "reel/files/safetensors.h"
#include "reel/kernels/rope_angles.h"

namespace reel::predict {

struct ModelHeads {
  std::int64_t layers = 0, heads = 0, head_dim = 0;
};

// A linear layer of the model whose outputs are the numbers of all heads, and the norm behind it.
struct Projection {
  const float* weight = nullptr;     // [heads * head_dim][width]
  const float* bias = nullptr;       // null: none
  std::span<const float> norm = {};  // of all numbers of a token, or of the numbers of a head; empty: none
};

// What q and k are made of: q = turned(normed(hidden wq^T + bq)), k likewise.
struct Origin {
  const float* hidden = nullptr;  // [batch][tokens][width]
  std::int64_t width = 0;         // 0: the model cannot say what q and k are made of
  Projection q = {}, k = {};
  const kernels::RopeAngles* rope = nullptr;  // of all tokens of a clip; null: not turned
};

// One layer of one pass: the tokens at hand, which are [first, first + tokens) of each clip.
struct Seen {
  int layer = 0;
  std::int64_t batch = 1, tokens = 0;
  const float* q = nullptr;  // [batch][tokens][heads][head_dim], normed and turned, tokens in tile order
  const float* k = nullptr;
  const Origin* origin = nullptr;
  std::int64_t first = 0;
};

// All tokens of one clip, of the heads [first, first + count): [tokens][count][head_dim].
struct ClipHeads {
  std::int64_t first = 0, count = 0;
  const float* q = nullptr;
  const float* k = nullptr;
};

// What a predictor wants to see of the clip that it learns from.
struct Wanted {
  bool sums = false;                       // Predictor::sums of every head
  std::vector<std::int32_t> q, k, hidden;  // tokens, ascending
};

// What a predictor learns from: the first clip of a pass.
struct Lesson {
  int layer = 0;
  std::int64_t tokens = 0;
  bool profiled = false;           // the true scores of this pass are looked at, too
  const Origin* origin = nullptr;  // its `hidden` is not read
  std::vector<double> sums;        // of all heads, head by head, where they were wanted
  // Rows of the tokens that were wanted: [tokens][width]. `q_tokens` says which ones `q` has; empty: all of the clip.
  const float *q = nullptr, *k = nullptr, *hidden = nullptr;
  std::span<const std::int32_t> q_tokens = {};
};

class Predictor {
 public:
  explicit Predictor(const ModelHeads& shape) : shape_(shape) {}
  virtual ~Predictor() = default;

  // Whether it can predict for this layer yet, and with how many numbers a query.
  virtual bool knows(int layer) const = 0;
  virtual std::int64_t rank(int layer, std::int64_t head) const = 0;

  // Queries of the tokens `rows` (counted from the first one at hand), and keys of all tokens at hand, of some heads:
  // low_q [batch][heads.size()][rows.size()][rank], low_k [batch][heads.size()][tokens][rank]. `rank` is at least that
  // of each head; numbers beyond that of a head are zeros. Scores are their products times 1 / sqrt(head_dim), as for q
  // and k. What a token gets has the same bits whatever other tokens are at hand.
  virtual void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
                       std::int64_t rank, float* low_q, float* low_k, Threads& threads) const = 0;

  // Whether it learns from passes that are not profiled, too.
  virtual bool learns_always() const = 0;
  // Learning, once for every training pass of a layer whose q and k are finite: what it wants of the clip; what is
  // found out about some heads of it, `sums_per_head` numbers a head; and what follows from all that.
  virtual Wanted wants(const Origin* origin, int layer, std::int64_t tokens, bool profiled) const = 0;
  virtual std::int64_t sums_per_head() const { return 0; }
  virtual std::vector<double> sums(const ClipHeads&, std::int64_t /*tokens*/, Threads&) const { return {}; }
  virtual void learn_from(const Lesson& lesson, Threads& threads) = 0;
  // All of it, from the first clip of a pass whose tokens are all at hand.
  void learn(const Seen& seen, bool profiled, Threads& threads);

  // For checkpoints: tensors by name.
  struct Saved {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  virtual std::vector<Saved> save() const = 0;
  virtual void load(const SafetensorsFile& file) = 0;

 protected:
  ModelHeads shape_;
};

}  // namespace reel::predict
