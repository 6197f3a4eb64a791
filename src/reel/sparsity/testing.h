// What the tests of sparsity share: layers whose q and k are made by hand. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/kernels/testing.h"
#include "reel/lists/testing.h"
#include "reel/sparsity/controller.h"

namespace reel::sparsity::testing {

using lists::KeyLists;

// q, k, v of one layer: [batch][tokens][heads][head_dim].
struct Layer {
  std::int64_t batch = 1, tokens = 0, heads = 0, dim = 0;
  std::int64_t shift = 5;
  std::vector<float> q, k, v;

  // Random keys of one length, random values; queries that look at nothing in particular.
  Layer(std::int64_t items, std::int64_t token_count, const Shape& shape, std::uint64_t seed)
      : batch(items), tokens(token_count), heads(shape.heads), dim(shape.head_dim) {
    std::uint64_t stream = 0;
    for (std::vector<float>* each : {&q, &k, &v}) {
      each->resize(static_cast<std::size_t>(batch * tokens * heads * dim));
      Random(seed, stream++).fill_normal(*each);
    }
    for (float& value : q) value *= 0.01f;
    for (std::size_t i = 0; i < k.size(); i += static_cast<std::size_t>(dim)) {
      const float length = std::sqrt(std::inner_product(&k[i], &k[i] + dim, &k[i], 0.0f) / static_cast<float>(dim));
      for (std::int64_t d = 0; d < dim; ++d) k[i + static_cast<std::size_t>(d)] /= length;
    }
  }
  std::size_t at(std::int64_t b, std::int64_t token, std::int64_t h) const {
    return static_cast<std::size_t>(((b * tokens + token) * heads + h) * dim);
  }
  // All queries of a group look at one key, another one for each group, head and item.
  std::int64_t wanted(std::int64_t b, std::int64_t h, std::int64_t g) const {
    return (g * 37 + h * 11 + b * 101 + shift) % tokens;
  }
  void look_up(const lists::TokenOrder& order, std::int64_t h) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t g = 0; g < order.groups(); ++g) {
        const float* key = &k[at(b, wanted(b, h, g), h)];
        for (std::int64_t i = order.group_starts[static_cast<std::size_t>(g)];
             i < order.group_starts[static_cast<std::size_t>(g) + 1]; ++i) {
          for (std::int64_t d = 0; d < dim; ++d) q[at(b, i, h) + static_cast<std::size_t>(d)] = 8 * key[d];
        }
      }
    }
  }
};

using lists::testing::same;
using lists::testing::tokens_of;

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
                  const Shape& shape = {2, 2, 16}, int threads = 1)
      : shape_(shape), threads_(threads), controller_(config, shape, options) {
    controller_.on_lists = [this](int layer, const KeyLists& each) {
      lists.resize(static_cast<std::size_t>(shape_.layers));
      lists[static_cast<std::size_t>(layer)] = each;
    };
    order({8, 8, 8});
  }
  void order(const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cuts = {}) {
    order_ = controller_.order(grid, cuts);
  }
  const lists::TokenOrder& order() const { return *order_; }
  Controller& controller() { return controller_; }
  Layer layer(std::uint64_t seed, std::int64_t batch = 1) const { return {batch, order_->tokens(), shape_, seed}; }

  // One layer of a pass that began; what attention gives. `lists` has what was used.
  std::vector<float> attend(const Layer& x, int layer = 0) {
    tape::Tape tape(threads_, pool_, {.gradients = false});
    const tape::Shape shape = {x.batch, x.tokens, x.heads, x.dim};
    const tape::Tensor out =
        controller_.attend(tape, layer, tape.copy_in(shape, x.q), tape.copy_in(shape, x.k), tape.copy_in(shape, x.v));
    return {out.span().begin(), out.span().end()};
  }
  std::vector<float> train(std::int64_t step, const Layer& x, int layer = 0) {
    controller_.begin(step, true);
    return attend(x, layer);
  }
  std::vector<float> sample(const Layer& x, int stream = 0) {
    controller_.begin(1000, false, stream);
    return attend(x);
  }
  bool sparse(std::int64_t h, int layer = 0) const { return controller_.head(layer, h).sparse != 0; }

  std::vector<KeyLists> lists;  // of each layer, the last time

 private:
  Shape shape_;
  Threads threads_;
  tape::Pool pool_;
  Controller controller_;
  std::shared_ptr<const lists::TokenOrder> order_;
};

}  // namespace reel::sparsity::testing
