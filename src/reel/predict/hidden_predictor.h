// The predictor `hidden`, the way of the DSV paper (arXiv 2502.07590) made to work: low-rank queries and keys from the
// block's input, so that the keys could be chosen before q and k exist. It is a pair of maps a layer (hidden_map.h)
// that begin as the rows of W_q and W_k whose numbers count most, and are trained next to the model to give each key
// the weight it has (distil.h), a few queries of each training pass at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/predict/hidden_map.h"
#include "reel/predict/predictor.h"

namespace reel::predict {

class HiddenPredictor final : public Predictor {
 public:
  // rank 0: three quarters of head_dim, at most 32. Odd ranks are rounded up, since numbers are turned in pairs; at
  // most head_dim. `seed` chooses the queries that are learnt from.
  HiddenPredictor(const ModelHeads& shape, std::int64_t rank, std::uint64_t seed);

  // From the first pass on that shows a finite origin whose width is heads * head_dim.
  bool knows(int layer) const override { return layers_[sized(layer)].learnt.size() > 0; }
  std::int64_t rank(int, std::int64_t) const override { return rank_; }
  void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
               std::int64_t rank, float* low_q, float* low_k, Threads& threads) const override;
  // One step of AdamW, taken at once; where `profiled`, pairs may be exchanged, too. A pass whose gradient is not
  // finite changes nothing.
  bool learns_always() const override { return true; }
  Wanted wants(const Origin* origin, int layer, std::int64_t tokens, bool profiled) const override;
  void learn_from(const Lesson& lesson, Threads& threads) override;
  std::vector<Saved> save() const override;
  void load(const SafetensorsFile& file) override;

 private:
  struct Layer {
    std::vector<float> energies;          // [heads][head_dim], averages over profiled passes
    std::vector<std::int32_t> picked;     // [heads][rank]
    Buffer<float> learnt, first, second;  // [queries, keys][numbers][width + 2], and AdamW's moments of it
    std::int64_t updates = 0;
  };
  std::size_t side_floats() const;  // of one side in `learnt`
  bool fits(const Origin* origin) const;
  std::vector<std::int32_t> queries(int layer, std::int64_t tokens) const;  // that the next pass is learnt from
  HiddenMap map(const Origin& origin, const Layer& layer, int side) const;
  void start(const Lesson& lesson, Layer& layer, Threads& threads) const;
  void exchange(const Lesson& lesson, Layer& layer) const;

  std::int64_t rank_, width_;
  std::uint64_t seed_;
  std::vector<Layer> layers_;
};

}  // namespace reel::predict
