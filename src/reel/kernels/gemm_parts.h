// How the loops of gemm are cut.
#pragma once

#include <cstddef>

namespace reel::kernels {

struct Range {
  std::size_t first, count;
};

// A slice of the depth: B packed as [panels of columns][depth][panel width].
struct Slice {
  std::size_t first, depth;
  bool is_first, is_last;
  const float* packed;
};

inline std::size_t pieces_of(std::size_t n, std::size_t size) { return (n + size - 1) / size; }
// Piece i of `pieces` of nearly equal size.
inline Range piece(std::size_t n, std::size_t pieces, std::size_t i) {
  const std::size_t first = n * i / pieces;
  return {first, n * (i + 1) / pieces - first};
}

}  // namespace reel::kernels
