#include "model/st_block.h"

namespace reel::model {

Tensor to_sequences(Tape& tape, const Tensor& x, Axis axis) {
  const std::int64_t batch = x.dim(0), frames = x.dim(1), places = x.dim(2), width = x.dim(3);
  if (axis == Axis::kSpace) return x.reshaped({batch * frames, places, width});
  return tape::permute(tape, x, {0, 2, 1, 3}).reshaped({batch * places, frames, width});
}

Tensor from_sequences(Tape& tape, const Tensor& y, const Shape& shape, Axis axis) {
  if (axis == Axis::kSpace) return y.reshaped(shape);
  return tape::permute(tape, y.reshaped({shape[0], shape[2], shape[1], shape[3]}), {0, 2, 1, 3});
}

}  // namespace reel::model
