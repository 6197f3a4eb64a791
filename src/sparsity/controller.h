// Which keys self-attention looks at, decided while the model trains or samples.
//
// Each head of each layer is dense or sparse. A dense head looks at all keys. On profile steps the controller looks at
// the true scores of a few query groups (profile.h), updates its picture of the head (moving averages) and decides:
// sparse where the predictor's list of the keys that carry the wanted mass is small enough to pay (below break-even)
// and nearly as good as the best list; back to dense where either fails. A sparse head's keys are chosen anew in every
// pass: the layer's own q and k, projected on the leading directions of their second moments (closed_form.h), are
// scored for a sample of each group's queries, and the heaviest keys are kept (attention/select.h), with the group's
// own tile.
//
// Nothing here is part of the model's graph: lists are constants of the step. A run of a recomputed part chooses the
// same lists again (same q, k, same bits) and profiles nothing. Predictions that are not finite make the layer dense
// for that pass; it is counted and told.
//
// State (moments, averages, decisions) is saved with checkpoints; together with the fixed break-even it makes a resumed
// run choose the same lists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "sparsity/closed_form.h"
#include "sparsity/config.h"
#include "sparsity/order.h"
#include "sparsity/profile.h"
#include "tape/operations.h"

namespace reel::sparsity {

// What is known about a head; shares are of all keys. f32, as checkpoints keep it.
struct Head {
  float query_sparsity = 0, overlap = 0;
  float needed = 1;            // best list for the mass
  float needed_predicted = 1;  // the predictor's list for the mass, with `samples` scored queries
  float quality = 0;           // mass of the predictor's list over that of the best list of its size
  float recall = 0;
  float rank = 0, samples = 0;
  float profiles = 0;  // how often it was looked at
  float sparse = 0;    // 1: sparse
};

struct Shape {
  std::int64_t layers = 0, heads = 0, head_dim = 0;
};

class Controller {
 public:
  // break_even: share of keys below which a sparse head is faster (config.break_even where that is given).
  Controller(const SparsityConfig& config, const Shape& shape, double break_even, std::uint64_t seed);

  // Before each pass. Only passes that train may profile.
  void begin(std::int64_t step, bool training);
  // The order of tokens for this grid, made once; tiles do not reach over `cuts` (frames).
  std::shared_ptr<const TokenOrder> order(const std::array<std::int64_t, 3>& grid,
                                          const std::vector<std::int64_t>& cuts);

  // Self-attention of a layer, tokens in the order above: q, k, v [batch, tokens, heads, head_dim].
  tape::Tensor attend(tape::Tape& tape, int layer, const tape::Tensor& q, const tape::Tensor& k, const tape::Tensor& v);

  const Head& head(int layer, std::int64_t h) const {
    return heads_[static_cast<std::size_t>(layer * shape_.heads + h)];
  }
  const Shape& shape() const { return shape_; }
  double sparse_share() const;  // of all heads
  double kept_share() const;    // of query-key pairs in the last pass, dense heads included
  std::int64_t fallbacks() const { return fallbacks_; }

  // Called with the lists of every layer that has a sparse head.
  std::function<void(int layer, const attention::KeyLists&)> on_lists;

  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  struct Layer {
    std::vector<Moments> q, k;  // of each head
    std::vector<LowRank> low;   // empty until the first profile
    Buffer<float> averages;     // mode static: [heads][groups][tokens]
  };
  bool profile_now() const;
  std::shared_ptr<const attention::KeyLists> choose(int layer, const tape::Tensor& q, const tape::Tensor& k,
                                                    Threads& threads);
  attention::KeyLists dynamic_lists(int layer, const tape::Tensor& q, const tape::Tensor& k, Threads& threads);
  attention::KeyLists static_lists(int layer, std::int64_t batch);
  void profile(int layer, const tape::Tensor& q, const tape::Tensor& k, Threads& threads);
  void profile_head_of(int layer, std::int64_t h, const tape::Tensor& q, const tape::Tensor& k, Threads& threads);
  void average_weights(int layer, const tape::Tensor& q, const tape::Tensor& k, Threads& threads);
  void decide(int layer, std::int64_t h, const HeadProfile& seen);
  void refresh(int layer, std::int64_t h);            // the projections from the moments
  double share_for(int layer, std::int64_t h) const;  // of keys, own tile not counted
  bool always_dense(int layer) const;
  Head& head_of(int layer, std::int64_t h) { return heads_[static_cast<std::size_t>(layer * shape_.heads + h)]; }
  const std::vector<std::int32_t>& samples_of(std::int64_t samples);

  SparsityConfig config_;
  Shape shape_;
  double break_even_;
  std::uint64_t seed_;
  std::vector<Head> heads_;
  std::vector<Layer> layers_;
  std::shared_ptr<const TokenOrder> order_;
  std::vector<std::int64_t> cuts_;
  std::map<std::int64_t, std::vector<std::int32_t>> sample_tokens_;
  std::shared_ptr<const attention::KeyLists> fixed_;  // window and own: the same for every layer
  std::int64_t step_ = 0, fallbacks_ = 0;
  bool training_ = false;
  double kept_pairs_ = 0, all_pairs_ = 0;
};

}  // namespace reel::sparsity
