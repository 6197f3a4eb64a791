// Tensors as the row-wise kernels see them.
#pragma once

#include "reel/base/sized.h"
#include "reel/kernels/rows.h"
#include "reel/tape/tensor.h"

namespace reel::tape {

inline kernels::Rows rows_of(const Tensor& x, std::int64_t width) {
  return {x.data(), sized(x.size() / width), sized(width)};
}
inline kernels::Rows rows_of(const Tensor& x) { return {x.data(), sized(x.rows()), sized(x.width())}; }

}  // namespace reel::tape
