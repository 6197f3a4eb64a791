// Softmax of rows, f32, and its pieces.
//
//   y = e^(x - lse),   lse = log of the sum of e^x, natural
//
// Stable: the largest element is subtracted first. A row of -inf (or of width 0) gives zeros and lse = -inf, so masked
// rows need no special care. A row with a NaN or a +inf gives NaN. In place is fine (y = x, dx = dy, dx = y).
// lse, one float a row, may be null.
#pragma once

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

void softmax(ConstRows x, Rows y, float* lse, Threads& threads);
// dx = y * (dy - sum of y * dy over the row); overwrites dx.
void softmax_backward(ConstRows y, ConstRows dy, Rows dx, Threads& threads);

// One float a row: the largest element (-inf for width 0; a row with NaN may give NaN or its largest number) and the
// sum.
void row_max(ConstRows x, float* out, Threads& threads);
void row_sum(ConstRows x, float* out, Threads& threads);

}  // namespace reel::kernels
