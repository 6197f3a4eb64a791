// A random order of n things, without a list of them.
#pragma once

#include <bit>
#include <cstdint>

#include "reel/base/random.h"

namespace reel::data {

// Place i of a permutation of 0 ... n - 1 that `random` stands for. A Feistel network permutes the numbers of an even
// count of bits; whoever falls outside of n walks on until inside, four steps at most on average.
inline std::int64_t permuted(std::int64_t i, std::int64_t n, const Random& random) {
  const int half = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto number = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = number >> half, right = number & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t mixed = left ^ (random.bits(round << 32 | right) & mask);
      left = right, right = mixed;
    }
    number = left << half | right;
  } while (number >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(number);
}

}  // namespace reel::data
