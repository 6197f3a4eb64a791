// The register tile of gemm: how it reads A, and the memory it asks for while it computes. Compiled once per
// instruction set (include after hwy/foreach_target.h).
#if defined(REEL_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_GEMM_TILE_INL_H_
#undef REEL_KERNELS_GEMM_TILE_INL_H_
#else
#define REEL_KERNELS_GEMM_TILE_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// With AVX-512 twelve rows: a panel passes through L2 half as often as with six (dy^T x of 4096x1152x1152 and
// 4096x4608x1152 1.04 times as fast, the other forms the same).
constexpr int kGemmRows = HWY_MAX_BYTES == 64 ? 12 : kTileRows, kGemmVectors = HWY_MAX_BYTES == 64 ? 2 : kTileVectors;
constexpr std::size_t kGemmWidth = kGemmVectors * kLanes;
constexpr std::size_t kLineFloats = 16;  // of a cache line

// With vectors of 64 bytes every step asks for what it soon needs; narrower ones compute too slowly to gain from that
// (AVX2 loses 4 % at 4096x384x384), and ask for the next panel instead.
constexpr bool kFetchSoon = HWY_MAX_BYTES == 64;
// Steps between two requests for what comes next; rows of the panel and floats of A asked for ahead of their use.
constexpr int kFetchSteps = kFetchSoon ? 16 : 64, kFetchRows = 16;
constexpr std::size_t kFetchAlong = 32, kFetchPacked = 192;
constexpr int kFetchTile = 10;  // rows: lower tiles are seldom (none from 61 rows on), and each takes g++ 2 s

// What follows a tile and is asked for while it is computed: rows of C of the next tile, and this tile's share of the
// next panel, in lines.
struct Ahead {
  const float* c;
  std::size_t c_stride, rows;
  const float* panel;
  std::size_t lines;
};

// A(r, k) = p[r / 3][r % 3 * stride + k]: the addresses of 12 rows from 5 registers.
template <int M>
struct EvenRowsOfA {
  const float* p[(M + 2) / 3];
  std::size_t stride;
  HWY_INLINE const float* at(int r, std::size_t k) const {
    return p[r / 3] + static_cast<std::size_t>(r % 3) * stride + k;
  }
  HWY_INLINE float operator()(int r, std::size_t k) const { return *at(r, k); }
};

template <int M>
struct PackedRowsOfA {  // A(r, k) = p[k * M + r]
  const float* p;
  HWY_INLINE float operator()(int r, std::size_t k) const { return p[k * M + static_cast<std::size_t>(r)]; }
};

// A from step k on, and its part that step i of a block asks for.
template <int M>
HWY_INLINE EvenRowsOfA<M> From(EvenRowsOfA<M> a, std::size_t k) {
  Unroll<(M + 2) / 3>([&](auto i) REEL_INLINE { a.p[i] += k; });
  return a;
}
template <int M>
HWY_INLINE PackedRowsOfA<M> From(const PackedRowsOfA<M>& a, std::size_t k) {
  return {a.p + k * M};
}
template <int M>
HWY_INLINE void FetchA(const EvenRowsOfA<M>& a, int i) {
  if (i < M) __builtin_prefetch(a.at(i, kFetchAlong));
}
template <int M>
HWY_INLINE void FetchA(const PackedRowsOfA<M>& a, int i) {
  __builtin_prefetch(a.p + i * M + kFetchPacked);
}

// tile += A * panel, memory asked for evenly on the way: the stores of a tile all at once would hold every line buffer
// for the time of a trip to memory. 4096x1152x1152 without packing on one core of a Xeon, 174 GFLOP/s at most: 157
// without any of it, 162 with the panel, 163 with A too, 166 with C too. On a Zen 3 core whose neighbours are busy in
// L3 the next panel and C give 3-14 % (docs/decisions/0005).
template <int M, class A>
HWY_INLINE void MulTileFetching(std::size_t depth, const A& a, const float* panel, const Ahead& ahead,
                                Tile<M, kGemmVectors>& tile) {
  const std::size_t blocks = depth / kFetchSteps;
  std::size_t row = 0, line = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    for (; row * blocks < ahead.rows * (block + 1); ++row) {
      for (std::size_t j = 0; j < kGemmWidth; j += kLineFloats)
        __builtin_prefetch(ahead.c + row * ahead.c_stride + j, 1);
    }
    for (; line * blocks < ahead.lines * (block + 1); ++line) {
      __builtin_prefetch(ahead.panel + line * kLineFloats, 0, 2);  // to L2
    }
    const A here = From(a, block * kFetchSteps);
    const float* rows = panel + block * kFetchSteps * kGemmWidth;
    if constexpr (kFetchSoon && M >= kFetchTile) {
      Unroll<kFetchSteps>([&](auto i) REEL_INLINE {
        FetchA(here, i);
        for (std::size_t j = 0; j < kGemmWidth; j += kLineFloats)
          __builtin_prefetch(rows + (i + kFetchRows) * kGemmWidth + j);
        MulTile(
            1, [&](int r, std::size_t) REEL_INLINE { return here(r, i); }, rows + i * kGemmWidth, kGemmWidth, tile);
        asm volatile("");  // else the compiler gathers the requests of all steps before the first
      });
    } else {
      MulTile(kFetchSteps, here, rows, kGemmWidth, tile);
    }
  }
  const std::size_t done = blocks * kFetchSteps;
  MulTile(depth - done, From(a, done), panel + done * kGemmWidth, kGemmWidth, tile);
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
