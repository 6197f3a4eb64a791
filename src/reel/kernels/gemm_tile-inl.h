// The register tile of gemm: how it reads A, the memory it asks for while it computes, and what follows its sums.
// Compiled once per instruction set (include after hwy/foreach_target.h).
#if defined(REEL_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_GEMM_TILE_INL_H_
#undef REEL_KERNELS_GEMM_TILE_INL_H_
#else
#define REEL_KERNELS_GEMM_TILE_INL_H_
#endif

#include "reel/kernels/activation-inl.h"
#include "reel/kernels/gemm.h"
#include "reel/kernels/gemm_parts.h"
#include "reel/kernels/rows-inl.h"
#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// With AVX-512 24 rows and one vector, whose multiply-adds take A from memory: 25 instructions for 24 of them, where 12
// x 2 has 38; and panels of half the width pass through L2 half as often (docs/decisions/0019).
constexpr int kGemmRows = HWY_MAX_BYTES == 64 ? 24 : kTileRows, kGemmVectors = HWY_MAX_BYTES == 64 ? 1 : kTileVectors;
constexpr std::size_t kGemmWidth = kGemmVectors * kLanes;
// Six heights of tiles, since each takes g++ 2 s: multiples of this. Rows that do not exist are packed as zeros and not
// stored.
constexpr int kRowStep = kGemmRows / 6;
constexpr bool kRowsInPlace = kRowStep == 1;  // may be read without packing
constexpr std::size_t kLineFloats = 16;       // of a cache line

// What follows a tile and is asked for while it is computed: rows of C of the next tile, and this tile's share of the
// next panel, in lines.
struct Ahead {
  const float* c;
  std::size_t c_stride, rows;
  const float* panel;
  std::size_t lines;
};
// Steps between two requests. With AVX-512 they are unrolled: a loop around so few instructions takes 8 %.
constexpr bool kUnroll = HWY_MAX_BYTES == 64;
constexpr int kFetchSteps = kUnroll ? 16 : 64;

template <int M>
struct PackedRowsOfA {  // A(r, k) = p[k * M + r]
  const float* p;
  HWY_INLINE const float* at(int r, std::size_t k) const { return p + k * M + static_cast<std::size_t>(r); }
};

// tile += A * panel, memory asked for evenly on the way: the stores of a tile all at once would hold every line buffer
// for the time of a trip to memory (12 x 2 on one core of a Xeon, of 174 GFLOP/s: 163 without C, 166 with it). On a Zen
// 3 core whose neighbours are busy in L3 the next panel and C give 3-14 % (docs/decisions/0005).
template <int M, class A>
HWY_INLINE void MulTileFetching(std::size_t depth, const A& a, const float* panel, const Ahead& ahead,
                                Tile<M, kGemmVectors>& tile) {
  const PanelOfB b{panel, kGemmWidth};
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
    const std::size_t first = block * kFetchSteps;
    if constexpr (kUnroll) {
      A here{a.at(0, first)};
      PanelOfB rows{b(first), kGemmWidth};
      // g++ would add an index to every address, and an instruction with one counts as two.
      asm("" : "+r"(here.p), "+r"(rows.p));
      Unroll<kFetchSteps>([&](auto i) REEL_INLINE { MulStep(i, here, rows, tile); });
    } else {
      MulTile(first, first + kFetchSteps, a, b, tile);
    }
  }
  MulTile(blocks * kFetchSteps, depth, a, b, tile);
}

// Covers rows by tiles: f(Int<height>, first row, rows that exist).
template <class F>
HWY_INLINE void ForGemmTiles(std::size_t rows, const F& f) {
  constexpr std::size_t kStep = kRowStep;
  ForRowTiles<kGemmRows / kRowStep>(pieces_of(rows, kStep), [&](auto steps, std::size_t first) REEL_INLINE {
    f(Int<steps * kRowStep>(), first * kStep, std::min(steps * kStep, rows - first * kStep));
  });
}

// What follows finished sums, while they are in the cache.
HWY_NOINLINE inline void Finish(const Gemm& g, const Range& rows, std::size_t column, std::size_t columns) {
  if (g.before == nullptr && g.activation == Activation::kNone) return;
  WithActivation(g.activation, [&](auto activation) REEL_INLINE {
    for (std::size_t r = rows.first; r < rows.first + rows.count; ++r) {
      float* c = g.c + r * g.c_stride + column;
      float* before = g.before == nullptr ? nullptr : g.before + r * g.c_stride + column;
      ForVectors(columns, [&](std::size_t i, auto extent) REEL_INLINE {
        const VF x = Load(c + i, extent);
        if (before != nullptr) Store(x, before + i, extent);
        Store(decltype(activation)::Value(x), c + i, extent);
      });
    }
  });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
