// What the tests of predictors share: layers whose q and k are made by hand. For tests only.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "reel/base/random.h"
#include "reel/kernels/testing.h"
#include "reel/lists/order.h"
#include "reel/predict/predictor.h"

namespace reel::predict::testing {

// q, k, v of one layer: [batch][tokens][heads][head_dim].
struct Layer {
  std::int64_t batch = 1, tokens = 0, heads = 0, dim = 0;
  std::int64_t shift = 5;
  std::vector<float> q, k, v;

  // Random keys of one length, random values; queries that look at nothing in particular.
  Layer(std::int64_t items, std::int64_t token_count, const ModelHeads& shape, std::uint64_t seed)
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

}  // namespace reel::predict::testing
