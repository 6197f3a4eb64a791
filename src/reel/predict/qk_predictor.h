// The predictor `qk`: the layer's own q and k, projected on the leading directions of their second moments
// (closed_form.h). The moments are running averages over profiled passes; nothing is trained.
#pragma once

#include "reel/base/sized.h"
#include "reel/predict/closed_form.h"
#include "reel/predict/predictor.h"

namespace reel::predict {

class QkPredictor final : public Predictor {
 public:
  // rank 0: head by head, as many as keep 98 % of the squared singular values, 8 to 32.
  QkPredictor(const ModelHeads& shape, std::int64_t rank);

  bool knows(int layer) const override { return known_[sized(layer)] != 0; }
  std::int64_t rank(int layer, std::int64_t head) const override { return of(layer, head).low.rank; }
  void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
               std::int64_t rank, float* low_q, float* low_k, Threads& threads) const override;
  bool learns_always() const override { return false; }
  Wanted wants(const Origin*, int, std::int64_t, bool profiled) const override { return {.sums = profiled}; }
  // The sums of x x^T and of x over the tokens, for x = q and for x = k.
  std::int64_t sums_per_head() const override { return 2 * (shape_.head_dim * shape_.head_dim + shape_.head_dim); }
  std::vector<double> sums(const ClipHeads& clip, std::int64_t tokens, Threads& threads) const override;
  void learn_from(const Lesson& lesson, Threads& threads) override;
  std::vector<Saved> save() const override;
  void load(const SafetensorsFile& file) override;

 private:
  struct Head {
    Moments q, k;
    LowRank low;
  };
  const Head& of(int layer, std::int64_t head) const { return heads_[sized(layer * shape_.heads + head)]; }
  void refresh(Head& head) const;  // the projections from the moments

  std::int64_t rank_;
  std::vector<Head> heads_;
  std::vector<float> known_;  // a layer each: 1 once it has learnt
};

}  // namespace reel::predict
