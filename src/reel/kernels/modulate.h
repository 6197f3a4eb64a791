// Adaptive layer norm's two row operations (DiT): modulation and the gated residual, f32, forward and backward.
//
//   modulate   y = x * (1 + scale) + shift
//   gate       y = x + gate * r
//
// x, r, y have one row a token; scale, shift and gate one row a batch item, shared by the tokens of that item: token
// row t belongs to item t / (x.rows / scale.rows), and scale.rows must divide x.rows. They have strides of their own
// because they are slices of one [batch][6 * width] projection. In place is fine (y = x, dx = dy, dr = dy).
//
// Backward overwrites all of its outputs. Sums over the tokens of an item: rows.h and chunks.h say how.
#pragma once

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

void modulate(ConstRows x, ConstRows scale, ConstRows shift, Rows y, Threads& threads);
// dx = dy * (1 + scale), dscale = sum of dy * x, dshift = sum of dy
void modulate_backward(ConstRows x, ConstRows scale, ConstRows dy, Rows dx, Rows dscale, Rows dshift, Threads& threads);

void gate(ConstRows x, ConstRows gate, ConstRows r, Rows y, Threads& threads);
// dr = dy * gate, dgate = sum of dy * r; dx is dy itself
void gate_backward(ConstRows gate, ConstRows r, ConstRows dy, Rows dr, Rows dgate, Threads& threads);

}  // namespace reel::kernels
