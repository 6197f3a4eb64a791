// One side of the predictor `hidden`: from the block's input x to `numbers` = heads * rank numbers a token, those of
// queries or those of keys.
//
//   u = (W[picked] + D / sqrt(width)) x + b[picked] + d
//   y = turned(norm[picked] * gain * u / rms(u))
//
// W, b and norm are the model's and followed as they change: `picked` names the rows of W whose numbers count most
// (hidden_pick.h). D, d and gain are the predictor's, what it has learnt about the rows that were left out. They are
// kept as [numbers][width + 2]: a row of D, then d, then gain. The unit of D is the size of a projection's weights, so
// that one learning rate fits all of them. The model norms over all numbers of all heads; here the picked ones stand
// for them. Without a norm in the model there is none here, and gain does nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/kernels/rows.h"
#include "reel/predict/hidden_pick.h"
#include "reel/predict/predictor.h"

namespace reel::predict {

// By what angle each pair of low-rank numbers is turned, a row a token; empty where no head is.
struct Turns {
  Buffer<float> cos, sin;  // [tokens][numbers / 2]
};
Turns turns_of(const kernels::RopeAngles* angles, std::span<const std::int32_t> picked, const ModelHeads& shape,
               std::span<const std::int32_t> tokens, Threads& threads);

class HiddenMap {
 public:
  HiddenMap(const Projection& source, std::span<const std::int32_t> picked, const ModelHeads& shape,
            std::span<const float> learnt);

  std::size_t numbers() const { return bias_.size(); }

  // What backward needs.
  struct Kept {
    Buffer<float> u, rstd;
  };
  // y [tokens][numbers] of x [tokens][width].
  void forward(kernels::ConstRows x, const Turns& turns, float* y, Kept& kept, Threads& threads) const;
  // Overwrites `gradient`, that of what was learnt, and dy.
  void backward(kernels::ConstRows x, const Turns& turns, const Kept& kept, float* dy, std::span<float> gradient,
                Threads& threads) const;

 private:
  std::size_t width_;
  Buffer<float> weight_, bias_, gain_;
  Buffer<float> norm_;  // empty: not normed
};

}  // namespace reel::predict
