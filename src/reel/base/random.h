// Random numbers by index: any number of a stream can be drawn directly, so the result does not depend on how work is
// cut.
//
// Philox 4x32-10 (Salmon et al., SC 2011): ten rounds of multiply and xor turn (seed, stream, index / 4) into four
// words. Number i of a stream is word i % 4 of block i / 4. Normal numbers come from Box-Muller over words (0,1) and
// (2,3).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace reel {

class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint32_t bits(std::uint64_t index) const { return block(index / 4)[index % 4]; }
  std::uint64_t below(std::uint64_t index, std::uint64_t limit) const;  // in [0, limit), limit > 0
  float uniform(std::uint64_t index) const;                             // in [0, 1)
  float normal(std::uint64_t index) const;                              // mean 0, variance 1

  // Numbers first, first + 1, ... of the stream.
  void fill_uniform(std::span<float> out, std::uint64_t first = 0) const;
  void fill_normal(std::span<float> out, std::uint64_t first = 0) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t number) const;
  std::uint64_t seed_, stream_;
};

}  // namespace reel
