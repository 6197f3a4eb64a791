// Self-attention over random numbers, forward and backward, with its memory: for timing, which does not depend on them.
// Layout [tokens][heads][head_dim], as linear layers leave it.
#pragma once

#include <cmath>
#include <cstdint>

#include "reel/attention/attention.h"
#include "reel/base/buffer.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::attention {

struct RandomProblem {
  Shape shape;
  Buffer<float> q, k, v, out, lse, dout, dq, dk, dv;

  RandomProblem(std::int64_t heads, std::int64_t tokens, std::int64_t head_dim)
      : shape{1, heads, tokens, tokens, head_dim}, lse(sized(heads * tokens)) {
    for (Buffer<float>* each : {&q, &k, &v, &out, &dout, &dq, &dk, &dv}) {
      *each = Buffer<float>(sized(heads * tokens * head_dim));
    }
    std::uint64_t seed = 1;
    for (Buffer<float>* each : {&q, &k, &v, &dout}) Random(seed++).fill_normal(*each);
  }
  template <class T>
  View<T> view(T* data) const {
    return token_major(data, shape.queries, shape.heads, shape.head_dim);
  }
  Input input() const {
    return {shape, view(q.data()), view(k.data()), view(v.data()),
            1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
  }
  Partial result() { return {view(out.data()), lse.data()}; }
  Gradients gradients() {
    return {view<const float>(dout.data()),
            view<const float>(out.data()),
            lse.data(),
            view(dq.data()),
            view(dk.data()),
            view(dv.data())};
  }
};

}  // namespace reel::attention
