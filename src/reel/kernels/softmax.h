// Softmax of rows, f32.
//
//   y = e^(x - lse),   lse = log of the sum of e^x, natural
//
// Stable: the largest element is subtracted first. A row of -inf (or of width 0) gives zeros and lse = -inf, so masked
// rows need no special care. A row with a NaN or a +inf gives NaN. In place is fine (y = x).
// lse, one float a row, may be null.
#pragma once

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

void softmax(ConstRows x, Rows y, float* lse, Threads& threads);
}  // namespace reel::kernels
