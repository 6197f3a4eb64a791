// What STDiT3 and Latte share: tokens [batch, frames, places, width], and attention over the places of each frame or
// over the frames at each place.
#pragma once

#include "model/modules.h"

namespace reel::model {

enum class Axis { kSpace, kTime };

// x [batch, frames, places, width] as sequences along the axis: [batch * frames, places, width], or
// [batch * places, frames, width]; and back.
Tensor to_sequences(Tape& tape, const Tensor& x, Axis axis);
Tensor from_sequences(Tape& tape, const Tensor& y, const Shape& shape, Axis axis);

}  // namespace reel::model
