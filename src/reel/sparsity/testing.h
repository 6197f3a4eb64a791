// What the tests of sparsity share: a controller, and passes through it. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/lists/testing.h"
#include "reel/predict/testing.h"
#include "reel/sparsity/chooser.h"
#include "reel/tape/operations.h"

namespace reel::sparsity::testing {

using lists::KeyLists;

using lists::testing::same;
using lists::testing::tokens_of;
using predict::testing::Layer;

inline Pass training(std::int64_t step, std::int64_t accumulated = 0) {
  return {.kind = Pass::Kind::kTraining, .step = step, .accumulated = accumulated};
}

// Self-attention of a layer on one rank.
inline tape::Tensor attention_of(Chooser& chooser, tape::Tape& tape, int layer, const tape::Tensor& q,
                                 const tape::Tensor& k, const tape::Tensor& v) {
  const Spread alone(tape, nullptr, q.shape(), layout::even_cut(q.dim(1), 1), chooser.pass);
  return tape::attention(tape, q, k, v, chooser.lists(tape, layer, q, k, {}, alone));
}

// A controller, and layers that go through it. 8 x 8 x 8 tokens in 8 groups, 2 layers of 2 heads, unless said
// otherwise; every step is looked at.
class Passes {
 public:
  static SparsityConfig dynamic() {
    SparsityConfig config;
    config.mode = "dynamic";
    config.profile_every = 1;
    config.rank = 16;  // all directions: predicted scores are the true ones
    return config;
  }
  explicit Passes(const SparsityConfig& config = dynamic(), const Controller::Options& options = {},
                  const predict::ModelHeads& shape = {2, 2, 16}, int threads = 1)
      : shape_(shape), threads_(threads), controller_(config, shape, options) {
    controller_.on_lists = [this](int layer, const KeyLists& each) {
      lists.resize(static_cast<std::size_t>(shape_.layers));
      lists[static_cast<std::size_t>(layer)] = each;
    };
    order({8, 8, 8});
  }
  void order(const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cuts = {}) {
    grid_ = grid, cuts_ = cuts;
    begin({});
  }
  const lists::TokenOrder& order() const { return *order_; }
  Controller& controller() { return controller_; }
  Layer layer(std::uint64_t seed, std::int64_t batch = 1) const { return {batch, order_->tokens(), shape_, seed}; }

  void begin(const Pass& pass) {
    chooser_.emplace(controller_, pass, pass.kind == Pass::Kind::kSampling ? &held : nullptr);
    order_ = &chooser_->order(grid_, cuts_);
  }
  // One layer of a pass that began; what attention gives. `lists` has what was used.
  std::vector<float> attend(const Layer& x, int layer = 0) {
    tape::Tape tape(threads_, pool_, {.gradients = false});
    const tape::Shape shape = {x.batch, x.tokens, x.heads, x.dim};
    const tape::Tensor out = attention_of(*chooser_, tape, layer, tape.copy_in(shape, x.q), tape.copy_in(shape, x.k),
                                          tape.copy_in(shape, x.v));
    return {out.span().begin(), out.span().end()};
  }
  std::vector<float> train(std::int64_t step, const Layer& x, int layer = 0) {
    begin(training(step));
    return attend(x, layer);
  }
  std::vector<float> sample(const Layer& x, int stream = 0) {
    begin({.kind = Pass::Kind::kSampling, .step = 1000, .stream = stream});
    return attend(x);
  }
  bool sparse(std::int64_t h, int layer = 0) const { return controller_.head(layer, h).sparse != 0; }

  double kept_share() const { return chooser_->pairs().kept_share(); }  // of the pass that began last

  std::vector<KeyLists> lists;  // of each layer, the last time
  HeldLists held;               // of sampling

 private:
  predict::ModelHeads shape_;
  Threads threads_;
  tape::Pool pool_;
  Controller controller_;
  std::array<std::int64_t, 3> grid_ = {};
  std::vector<std::int64_t> cuts_;
  std::optional<Chooser> chooser_;
  const lists::TokenOrder* order_ = nullptr;
};

}  // namespace reel::sparsity::testing
