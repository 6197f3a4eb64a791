// Layer norm and RMS norm over rows, f32, forward and backward.
//
//   layer norm   y = (x - mean) * rstd * weight + bias,   rstd = 1 / sqrt(variance + eps)
//   RMS norm     y = x * rstd * weight,                   rstd = 1 / sqrt(mean of x^2 + eps)
//
// The variance divides by the width (not by width - 1).
// weight and bias have `width` floats; null means ones and zeros. The variance is taken of x - mean (two passes), so a
// large mean costs no accuracy beyond that of x itself. mean and rstd, one float a row, are what backward needs; null
// when nobody will ask. In place is fine, forward (y = x) and backward (dx = dy or dx = x).
//
// Backward overwrites dx and ADDS to dweight and dbias, as gradients of parameters collect over uses; null skips them.
// Width 0 is not allowed. A NaN makes its row NaN.
#pragma once

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

void layer_norm(ConstRows x, const float* weight, const float* bias, float eps, Rows y, float* mean, float* rstd,
                Threads& threads);
void layer_norm_backward(ConstRows x, const float* weight, const float* mean, const float* rstd, ConstRows dy, Rows dx,
                         float* dweight, float* dbias, Threads& threads);

void rms_norm(ConstRows x, const float* weight, float eps, Rows y, float* rstd, Threads& threads);
void rms_norm_backward(ConstRows x, const float* weight, const float* rstd, ConstRows dy, Rows dx, float* dweight,
                       Threads& threads);

}  // namespace reel::kernels
