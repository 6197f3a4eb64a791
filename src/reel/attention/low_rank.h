// Low-rank queries and keys as selection sees them: each row rounded to 16-bit integers times a unit of its own, so
// that products are exact in 32 bits and two are one instruction (pmaddwd). A score moves by less than sqrt(rank) /
// 2^15 of the product of the rows' norms, far less than what a low-rank score misses of the true one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace reel::attention {

// Largest integer of a row: the product of two rows of `rank` of these fits 32 bits.
inline float largest_integer(std::size_t rank) {
  return std::min(32767.0f, std::floor(static_cast<float>(46340.0 / std::sqrt(static_cast<double>(rank)))));
}

// Rows whose largest magnitude is outside of this are zero, as is what is no number.
constexpr float kLeastMagnitude = 1e-30f, kMostMagnitude = 1e30f;

// integers * unit is about row. Returns the unit.
template <class Int>
float round_row(const float* row, std::size_t rank, Int* integers) {
  float largest = 0;
  for (std::size_t c = 0; c < rank; ++c) largest = std::max(largest, std::abs(row[c]));  // NaN is never larger
  const bool numbers = largest >= kLeastMagnitude && largest <= kMostMagnitude;
  const float most = largest_integer(rank), factor = numbers ? most / largest : 0.0f;
  for (std::size_t c = 0; c < rank; ++c) {
    const float x = row[c] * factor;
    integers[c] = static_cast<Int>(std::isfinite(x) ? std::nearbyint(x) : 0.0f);
  }
  return numbers ? largest / most : 0.0f;
}

}  // namespace reel::attention
