#include "reel/kernels/gemm_few.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/cpu.h"
#include "reel/kernels/gemm_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/gemm_few.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// x^T is the panel, N vectors of rows wide; rows of W are the broadcast operand, kColumns<N> of them in a tile (12 are
// 2-6 % faster than 8 with one vector of AVX-512).
template <int N>
constexpr int kColumns = N <= 2 && kTileVectors == 4 ? 12 : kTileRows;

// f(Int<vectors of a panel of this many rows>). Three vectors take the panel of four.
template <class F>
HWY_INLINE void WithVectors(std::size_t rows, const F& f) {
  if (rows <= kLanes) return f(Int<1>());
  if (rows <= 2 * kLanes || kTileVectors == 2) return f(Int<2>());
  f(Int<kTileVectors>());
}

template <int M, int N>
HWY_NOINLINE void FewRowsTile(const Gemm& g, const float* xt, std::size_t column) {
  constexpr std::size_t kPanel = N * kLanes;
  const DF d;
  RowsOfA<M> a;
  Unroll<M>([&](auto r) REEL_INLINE { a.p[r] = g.b.data + (column + r) * g.b.stride; });
  HWY_ALIGN float sums[M][kPanel];  // begin as in GemmTile: a row has the same bits among few rows as among many
  for (int r = 0; r < M; ++r) {
    for (std::size_t row = 0; row < kPanel; ++row) {
      float start = g.accumulate && row < g.rows ? g.c[row * g.c_stride + column + r] : 0.0f;
      if (g.bias != nullptr) start += g.bias[column + r];
      sums[r][row] = start;
    }
  }
  Tile<M, N> tile;
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { tile.c[r][v] = hn::Load(d, sums[r] + v * kLanes); });
  MulTile(g.depth, a, xt, kPanel, tile);
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { hn::Store(tile.c[r][v], d, sums[r] + v * kLanes); });
  for (std::size_t row = 0; row < g.rows; ++row) {
    for (int r = 0; r < M; ++r) g.c[row * g.c_stride + column + r] = sums[r][row];
  }
}

void FewRows(const Gemm& g, const float* xt, const Range& columns) {
  WithVectors(g.rows, [&](auto n) REEL_INLINE {
    ForRowTiles<kColumns<n>>(columns.count,
                             [&](auto m, std::size_t i) REEL_INLINE { FewRowsTile<m, n>(g, xt, columns.first + i); });
  });
  Finish(g, {0, g.rows}, columns.first, columns.count);
}
void PackFewRows(const Gemm& g, const Range& depth, float* xt) {
  WithVectors(g.rows, [&](auto n) REEL_INLINE {
    constexpr std::size_t kPanel = n * kLanes;
    TransposePanel<kPanel>(g.a.data + depth.first, g.a.stride, g.rows, depth.count, 1.0f, xt + depth.first * kPanel);
  });
}

std::size_t MostFewRows() { return kWidth; }

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(FewRows);
HWY_EXPORT(PackFewRows);
HWY_EXPORT(MostFewRows);

std::size_t most_few_rows() { return REEL_DISPATCH(MostFewRows)(); }

void gemm_few_rows(const Gemm& g, Threads& threads) {
  REEL_CHECK(g.form == Form::kXWt && g.rows <= most_few_rows());
  float* xt = threads.shared_scratch(g.depth * most_few_rows());
  const auto pack = REEL_DISPATCH(PackFewRows);
  const std::size_t parts = pieces_of(g.depth, 512);
  threads.run(static_cast<std::int64_t>(parts),
              [&](std::int64_t i, int) { pack(g, piece(g.depth, parts, sized(i)), xt); });
  // Enough for many threads, if tiles stay whole.
  const std::size_t most = pieces_of(g.columns, 12),
                    pieces = std::clamp(4 * sized(threads.count()), pieces_of(g.columns, 64), most);
  const auto compute = REEL_DISPATCH(FewRows);
  threads.run(static_cast<std::int64_t>(pieces),
              [&](std::int64_t i, int) { compute(g, xt, piece(g.columns, pieces, sized(i))); });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
