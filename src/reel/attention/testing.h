// What the tests of attention share: random problems and comparison with the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reel/attention/attention.h"
#include "reel/attention/reference.h"
#include "reel/base/buffer.h"
#include "reel/base/random.h"
#include "reel/base/testing.h"
#include "reel/kernels/testing.h"
#include "reel/lists/testing.h"

namespace reel::attention {

using reel::test_seed;

using kernels::testing::Array;

// One attention problem with its memory. Rows lie `gap` floats further apart than they need to.
struct Problem {
  Shape shape;
  Array q, k, v, dout, out, lse, dq, dk, dv;
  bool tokens_first;
  std::int64_t gap;
  float scale;

  Problem(const Shape& s, std::uint64_t seed, bool token_major_layout = true, std::int64_t row_gap = 0,
          float spread = 1)
      : shape(s),
        q(random(floats(s, s.queries, row_gap), seed, 0, spread)),
        k(random(floats(s, s.keys, row_gap), seed, 4)),
        v(random(floats(s, s.keys, row_gap), seed, 5)),
        dout(random(floats(s, s.queries, row_gap), seed, 1)),
        out(random(floats(s, s.queries, row_gap), seed, 2)),
        lse(random(static_cast<std::size_t>(s.batch * s.heads * s.queries), seed, 8)),
        dq(random(floats(s, s.queries, row_gap), seed, 3)),
        dk(random(floats(s, s.keys, row_gap), seed, 6)),
        dv(random(floats(s, s.keys, row_gap), seed, 7)),
        tokens_first(token_major_layout),
        gap(row_gap),
        scale(1 / std::sqrt(static_cast<float>(s.head_dim))) {}
  // The last row has no gap behind it: its end is the end of the memory.
  static std::size_t floats(const Shape& s, std::int64_t tokens, std::int64_t gap) {
    const std::int64_t rows = s.batch * s.heads * tokens;
    return static_cast<std::size_t>(rows == 0 ? 0 : rows * (s.head_dim + gap) - gap);
  }
  static Array random(std::size_t n, std::uint64_t seed, std::uint64_t stream, float spread = 1) {
    Array array(n);
    Random(seed, stream).fill_normal(array);
    for (float& x : array) x *= spread;
    return array;
  }
  template <class T>
  View<T> view(T* data, std::int64_t tokens) const {
    const std::int64_t width = shape.head_dim + gap;
    return tokens_first ? token_major(data, tokens, shape.heads, width) : head_major(data, tokens, shape.heads, width);
  }
  Input input() const {
    return {shape, view(q.data(), shape.queries), view(k.data(), shape.keys), view(v.data(), shape.keys), scale};
  }
  Partial partial() { return {view(out.data(), shape.queries), lse.data()}; }
  Gradients gradients(bool accumulate = false) {
    return {view<const float>(dout.data(), shape.queries),
            view<const float>(out.data(), shape.queries),
            lse.data(),
            view(dq.data(), shape.queries),
            view(dk.data(), shape.keys),
            view(dv.data(), shape.keys),
            accumulate};
  }
};

inline double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

// Largest difference to the reference.
inline double difference(const Problem& p, ConstView got, std::int64_t tokens, const std::vector<double>& want) {
  double worst = 0;
  std::size_t at = 0;
  for (std::int64_t b = 0; b < p.shape.batch; ++b) {
    for (std::int64_t h = 0; h < p.shape.heads; ++h) {
      for (std::int64_t i = 0; i < tokens; ++i) {
        for (std::int64_t c = 0; c < p.shape.head_dim; ++c, ++at) {
          const double error = std::abs(want[at] - got.at(b, h, i)[c]);
          worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
        }
      }
    }
  }
  return worst;
}

inline double lse_difference(const Array& got, const std::vector<double>& want) {
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    const double error = std::abs(want[i] - got[i]) / std::max(1.0, std::abs(want[i]));
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

}  // namespace reel::attention
