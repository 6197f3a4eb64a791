// Tensors as the row-wise kernels see them.
#pragma once

#include "base/sized.h"
#include "kernels/rows.h"
#include "tape/tensor.h"

namespace reel::tape {

inline kernels::Rows rows_of(const Tensor& x, std::int64_t width) {
  return {x.data(), sized(x.size() / width), sized(width)};
}
inline kernels::Rows rows_of(const Tensor& x) { return {x.data(), sized(x.rows()), sized(x.width())}; }

}  // namespace reel::tape
