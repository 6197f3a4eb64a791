// A predictor of one layer with one head whose numbers are known for every token: the true q and k, or what was fitted
// to them. It learns nothing.
#pragma once

#include "reel/predict/predictor.h"

namespace reel::study {

class GivenPredictor final : public predict::Predictor {
 public:
  // [tokens][rank] each; they must outlive this.
  GivenPredictor(const float* low_q, const float* low_k, std::int64_t rank)
      : low_q_(low_q), low_k_(low_k), rank_(rank) {}

  bool knows(int) const override { return true; }
  std::int64_t rank(int, std::int64_t) const override { return rank_; }
  void predict(const predict::Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
               std::int64_t rank, float* low_q, float* low_k, Threads& threads) const override;
  bool learns_always() const override { return false; }
  void learn(const predict::Seen&, bool, Threads&) override {}
  std::vector<Saved> save() const override { return {}; }
  void load(const SafetensorsFile&) override {}

 private:
  const float *low_q_, *low_k_;
  std::int64_t rank_;
};

}  // namespace reel::study
