// A matrix whose rows may lie apart: row i begins at data + i * stride (in floats) and has `width` floats.
//
// The common currency of the row-wise kernels. It owns nothing. Rows do not overlap (stride >= width, or one row).
// Where a kernel's header says "in place is fine", an output may be the very same rows as an input; outputs may not
// overlap inputs in any other way.
#pragma once

#include <cstddef>
#include <type_traits>

#include "reel/base/error.h"

namespace reel::kernels {

template <class T>
struct RowsOf {
  RowsOf(T* data_, std::size_t rows_, std::size_t width_, std::size_t stride_)
      : data(data_), rows(rows_), width(width_), stride(stride_) {
    REEL_CHECK(rows <= 1 || stride >= width);
  }
  RowsOf(T* data_, std::size_t rows_, std::size_t width_) : RowsOf(data_, rows_, width_, width_) {}
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
  RowsOf(const RowsOf<U>& other)  // rows to write are rows to read
      : data(other.data), rows(other.rows), width(other.width), stride(other.stride) {}

  T* row(std::size_t i) const { return data + i * stride; }

  T* data;
  std::size_t rows, width, stride;
};
using Rows = RowsOf<float>;
using ConstRows = RowsOf<const float>;

template <class A, class B>
bool same_shape(const RowsOf<A>& a, const RowsOf<B>& b) {
  return a.rows == b.rows && a.width == b.width;
}

// What happens to what an output held before.
enum class Write { kOverwrite, kAdd };

}  // namespace reel::kernels
