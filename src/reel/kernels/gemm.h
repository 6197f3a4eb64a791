// Matrix products of linear layers, f32.
//
// One result C [rows][columns], summed over depth, in the three forms that a layer y = x W^T needs:
//
//   kXWt   y = x W^T     a = x  [rows][depth]   b = W [columns][depth]
//   kDyW   dx = dy W     a = dy [rows][depth]   b = W [depth][columns]
//   kDytX  dW = dy^T x   a = dy [depth][rows]   b = x [depth][columns]
//
// Matrices are row-major with a stride in floats; any sizes. C must not overlap a or b. A sum runs over depth in
// ascending order with fused multiply-add, so a result has the same bits for any number of threads, and a row of C does
// not depend on the other rows, nor on how many there are.
#pragma once

#include <cstddef>

#include "reel/base/threads.h"
#include "reel/base/work.h"
#include "reel/kernels/activation.h"

namespace reel::kernels {

using work::Form;

struct Matrix {
  const float* data;
  std::size_t stride;
};

struct Gemm {
  Form form;
  std::size_t rows, columns, depth;
  Matrix a, b;
  float* c;
  std::size_t c_stride;
  // C = activation((accumulate ? C : 0) + bias + product); `before` (stride as C) gets what the activation sees.
  bool accumulate = false;
  const float* bias = nullptr;  // [columns]
  Activation activation = Activation::kNone;
  float* before = nullptr;
  Precision precision = Precision::kF32;
};

void gemm(const Gemm& g, Threads& threads);

}  // namespace reel::kernels
