// Rows by index, f32: collecting them, and adding them back.
//
// index[i] names a row of the larger side, 0 <= index[i] < rows; repeats are fine. Source and destination do not
// overlap and have row strides of their own.
#pragma once

#include <cstdint>
#include <span>

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

// to[i] = from[index[i]]; to has index.size() rows.
void gather_rows(ConstRows from, std::span<const std::int32_t> index, Rows to, Threads& threads);

// to[index[i]] += from[i]; from has index.size() rows. Each row of `to` gets its rows one after another, in the order
// of i, as one thread alone would add them; rows that are not named are not touched.
void scatter_add_rows(ConstRows from, std::span<const std::int32_t> index, Rows to, Threads& threads);

}  // namespace reel::kernels
