// The register tiles of attention, compiled once per instruction set (include after hwy/foreach_target.h).
//
//   forward   S^T = K Q^T      ScoreTile        A = key rows,            B = Q^T panel (packed per block of queries)
//             O  += P V        ColumnsTile      A = P^T by columns,      B = value rows
//   backward  P^T = exp(S^T)   ProbabilityTile  A = key rows,            B = Q^T panel
//             dS^T             ScoreGradTile    A = value rows,          B = dO^T panel
//             dV += P^T dO     RowsTile         A = P^T rows,            B = dO panel (packed per block)
//             dK += dS^T Q     RowsTile         A = dS^T rows,           B = Q panel (packed per block)
//             dQ += dS K       ColumnsTile      A = dS^T by columns,     B = key rows
//
// Scores lie transposed, [key][query], queries along the lanes: max, sum, exp, lse and delta are vertical operations.
// Rows of keys and values are read where they are if they lie side by side, else copied once for a step (PlaceRows);
// those read as vectors are packed below AVX-512 (VectorRows). A token list costs a row pointer per key. dK and dV rows
// are updated in place.
//
// Tiles stay out of line: inlined next to a softmax, g++ 12 keeps its loop invariants in registers and spills
// accumulators (50 instead of 85 GFLOP/s on Zen 3).
#if defined(REEL_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_ATTENTION_TILES_INL_H_
#undef REEL_ATTENTION_TILES_INL_H_
#else
#define REEL_ATTENTION_TILES_INL_H_
#endif

#include "reel/attention/blocks.h"
#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {
using namespace reel::kernels::HWY_NAMESPACE;  // NOLINT: the tile vocabulary

constexpr std::size_t kGroupQueries = 64;  // at most in what is treated as a group with a list of its own

constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

// Rows that the next step will touch, asked for while this one computes: evenly, a few lines with every tile. Many at
// once are more than a core can wait for (16 on a Xeon, 24 on Zen 3), and what a tile needs itself has to queue behind
// them. With AVX-512 a group of queries takes keys so fast that its tiles ask every 32 steps: 4 % faster with lists of
// 10 % on a quiet Xeon. Dense blocks would lose 1.5 % by it, and tiles of AVX2 5 % (docs/decisions/0018).
class Ahead {
 public:
  Ahead(const float* const* rows, std::size_t count, std::size_t d, std::size_t queries)
      : rows_(rows), count_(count), d_(d), portion_(kPortions && queries <= kGroupQueries ? 32 : kWholeTile) {}
  // `tiles` tiles of n steps will come.
  void Expect(std::size_t tiles, std::size_t n) { calls_ += tiles * std::max<std::size_t>(1, n / portion_); }
  // A tile of n steps: f(first step, last step) for each of its portions.
  template <class F>
  HWY_INLINE void Tile(std::size_t n, const F& f) {
    std::size_t k = 0;
    if constexpr (kPortions) {
      for (; k + 2 * portion_ <= n; k += portion_) {
        Ask();
        f(k, k + portion_);
      }
    }
    Ask();
    f(k, n);
  }

 private:
  static constexpr bool kPortions = HWY_MAX_BYTES == 64;
  static constexpr std::size_t kWholeTile = std::size_t{1} << 32;
  HWY_INLINE void Ask() {
    for (due_ += count_; due_ >= calls_ && at_ < count_; due_ -= calls_, ++at_) {
      for (std::size_t c = 0; c < d_; c += 16) __builtin_prefetch(rows_[at_] + c, 0, 2);  // to L2
    }
  }
  const float* const* rows_;
  std::size_t count_, d_, portion_, calls_ = 0, at_ = 0, due_ = 0;
};

// tile += A B over n steps.
template <int M, int N, class A, class B>
HWY_INLINE void MulTileAsking(std::size_t n, const A& a, const B& b, Tile<M, N>& tile, Ahead& ahead) {
  ahead.Tile(n, [&](std::size_t first, std::size_t last) REEL_INLINE { MulTile(first, last, a, b, tile); });
}

// Keys of a block in steps of nearly equal size: 410 keys in steps of at most 96 are 5 of 82, not 4 of 96 and one
// of 26.
struct Steps {
  std::size_t keys, count;
  Steps(std::size_t n, std::size_t most) : keys(n), count((n + most - 1) / most) {}
  std::size_t First(std::size_t step) const { return keys * step / count; }
  std::size_t Size(std::size_t step) const { return First(step + 1) - First(step); }
};

template <int M>
HWY_INLINE RowsOfA<M> TakeRows(const float* const* rows) {
  RowsOfA<M> a;
  Unroll<M>([&](auto r) REEL_INLINE { a.p[r] = rows[r]; });
  return a;
}
template <int M>
HWY_INLINE RowsOfA<M> TakeRows(const float* p, std::size_t stride) {
  RowsOfA<M> a;
  Unroll<M>([&](auto r) REEL_INLINE { a.p[r] = p + static_cast<std::size_t>(r) * stride; });
  return a;
}

// scores = rows * panel; largest[query] = max(largest[query], scores).
template <int M, int N>
HWY_NOINLINE void ScoreTile(const float* const* rows, std::size_t d, const float* panel, float* scores,
                            std::size_t stride, float* largest, Ahead& ahead) {
  const DF df;
  Tile<M, N> tile;
  ZeroTile(tile);
  MulTileAsking(d, TakeRows<M>(rows), PanelOfB{panel, kWidth}, tile, ahead);
  VF most[N];
  Unroll<N>([&](auto v) REEL_INLINE { most[v] = hn::LoadU(df, largest + v * kLanes); });
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
    most[v] = hn::Max(tile.c[r][v], most[v]);
    hn::StoreU(tile.c[r][v], df, scores + static_cast<std::size_t>(r) * stride + v * kLanes);
  });
  Unroll<N>([&](auto v) REEL_INLINE { hn::StoreU(most[v], df, largest + v * kLanes); });
}

// p = 2^(rows * panel - lse2[query])
template <int M, int N>
HWY_NOINLINE void ProbabilityTile(const float* const* rows, std::size_t d, const float* panel, const float* lse2,
                                  float* p, std::size_t stride, Ahead& ahead) {
  const DF df;
  Tile<M, N> tile;
  ZeroTile(tile);
  MulTileAsking(d, TakeRows<M>(rows), PanelOfB{panel, kWidth}, tile, ahead);
  Unroll<(M + 1) / 2>([&](auto half) REEL_INLINE {  // two rows at a time: enough chains in flight, no spilling
    constexpr int kFirst = 2 * half, kRows = M - kFirst < 2 ? 1 : 2;
    VF e[kRows * N];
    UnrollTile<kRows, N>([&](auto r, auto v) REEL_INLINE {
      e[r * N + v] = hn::Sub(tile.c[kFirst + r][v], hn::LoadU(df, lse2 + v * kLanes));
    });
    Exp2(e);
    UnrollTile<kRows, N>([&](auto r, auto v) REEL_INLINE {
      hn::StoreU(e[r * N + v], df, p + static_cast<std::size_t>(kFirst + r) * stride + v * kLanes);
    });
  });
}

// ds = p * (rows * panel - delta[query])
template <int M, int N>
HWY_NOINLINE void ScoreGradTile(const float* const* rows, std::size_t d, const float* panel, const float* delta,
                                const float* p, float* ds, std::size_t stride, Ahead& ahead) {
  const DF df;
  Tile<M, N> tile;
  ZeroTile(tile);
  MulTileAsking(d, TakeRows<M>(rows), PanelOfB{panel, kWidth}, tile, ahead);
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
    const std::size_t at = static_cast<std::size_t>(r) * stride + v * kLanes;
    const VF difference = hn::Sub(tile.c[r][v], hn::LoadU(df, delta + v * kLanes));
    hn::StoreU(hn::Mul(hn::LoadU(df, p + at), difference), df, ds + at);
  });
}

// out[r] = factor[r] * out[r] + sum over n keys of a[key * a_stride + r] * rows(key); without factors, out[r] + ...
template <int M, int N, class B>
HWY_NOINLINE void ColumnsTile(std::size_t n, const float* a, std::size_t a_stride, const B& rows, const float* factor,
                              float* out, std::size_t stride, Ahead& ahead) {
  const DF df;
  Tile<M, N> tile;
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
    tile.c[r][v] = hn::LoadU(df, out + static_cast<std::size_t>(r) * stride + v * kLanes);
  });
  if (factor != nullptr) {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { tile.c[r][v] = hn::Mul(tile.c[r][v], hn::Set(df, factor[r])); });
  }
  MulTileAsking(n, ColumnsOfA{a, a_stride}, rows, tile, ahead);
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
    hn::StoreU(tile.c[r][v], df, out + static_cast<std::size_t>(r) * stride + v * kLanes);
  });
}

// out[r][offset ...] += sum over n queries of a[r * a_stride + query] * panel[query]; `columns` of the tile exist.
template <int M, int N>
HWY_NOINLINE void RowsTile(std::size_t n, const float* a, std::size_t a_stride, const float* panel, float* const* out,
                           std::size_t offset, std::size_t columns, Ahead& ahead) {
  const DF df;
  Tile<M, N> tile;
  const bool whole = columns >= N * kLanes;
  if (whole) {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { tile.c[r][v] = hn::LoadU(df, out[r] + offset + v * kLanes); });
  } else {
    UnrollTile<M, N>([&](auto r, auto v)
                         REEL_INLINE { tile.c[r][v] = LoadFirst(out[r] + offset + v * kLanes, columns - v * kLanes); });
  }
  MulTileAsking(n, TakeRows<M>(a, a_stride), PanelOfB{panel, N * kLanes}, tile, ahead);
  if (whole) {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { hn::StoreU(tile.c[r][v], df, out[r] + offset + v * kLanes); });
  } else {
    UnrollTile<M, N>([&](auto r, auto v)
                         REEL_INLINE { StoreFirst(tile.c[r][v], out[r] + offset + v * kLanes, columns - v * kLanes); });
  }
}

// Covers n vectors of queries by panels of kTileVectors, the last one narrower: f(Int<vectors>, first vector).
template <class F>
HWY_INLINE void ForPanels(std::size_t n, const F& f) {
  std::size_t v = 0;
  for (; v + kTileVectors <= n; v += kTileVectors) f(Int<kTileVectors>(), v);
  [&]<int... N>(std::integer_sequence<int, N...>) REEL_INLINE {
    (void)((n - v == N + 1 && (f(Int<N + 1>(), v), true)) || ...);
  }
  (std::make_integer_sequence<int, kTileVectors - 1>());
}

// Covers the columns of a row of d floats by panels of nearly equal width (d = 72 has 3 + 2 vectors of AVX-512, not 4 +
// 1): f(Int<vectors>, first column).
template <class F>
HWY_INLINE void ForColumns(std::size_t d, const F& f) {
  ForRowTiles<kTileVectors>((d + kLanes - 1) / kLanes,
                            [&](auto vectors, std::size_t first) REEL_INLINE { f(vectors, first * kLanes); });
}

inline std::size_t Vectors(std::size_t n) { return (n + kLanes - 1) / kLanes; }
inline std::size_t Panels(std::size_t n) { return (n + kWidth - 1) / kWidth; }
inline std::size_t RowTiles(std::size_t n) { return (n + kTileRows - 1) / kTileRows; }

// dst [panels of columns][n][width of the panel] from n rows of d floats; the panel of column c begins at c * n.
template <class Row>
HWY_INLINE void PackPanels(const Row& row, std::size_t n, std::size_t d, float* dst) {
  ForColumns(d, [&](auto vectors, std::size_t c) REEL_INLINE {
    CopyPanel<vectors>([&](std::size_t i) REEL_INLINE { return row(i) + c; }, n, d - c, dst + c * n);
  });
}

// Rows that tiles read in place, as scalars and as whole vectors. Rows that lie side by side and end with a vector stay
// where they are; others are copied to dst [n][d in whole vectors], and the pointers follow: a stride that is a power
// of two (heads * head_dim) would use a fraction of the sets of L1 only.
HWY_INLINE void PlaceRows(const float** rows, std::size_t n, std::size_t stride, std::size_t d, float* dst) {
  if (stride == d && d % kLanes == 0) return;
  const DF df;
  for (std::size_t i = 0; i < n; ++i) {
    const float* HWY_RESTRICT from = rows[i];
    float* HWY_RESTRICT to = dst + i * Vectors(d) * kLanes;
    std::size_t c = 0;
    for (; c + kLanes <= d; c += kLanes) hn::StoreU(hn::LoadU(df, from + c), df, to + c);
    if (c < d) hn::StoreU(LoadPart(from + c, d - c), df, to + c);
    rows[i] = to;
  }
}

// Rows of a step that are read as vectors, the B of P V and of dS K: At<N>(c) are N vectors from column c on. Below
// AVX-512 they are copied to panels. Rows 256 or 512 bytes apart would use a quarter or an eighth of the sets of L1,
// and every tile fetch them from L2 again: in turn on two Zen 3 cores, medians, forward runs 1.02-1.06 times as fast
// dense and 1.02-1.11 with lists, backward 1.00-1.03. `memory` has room for n rows in whole panels.
class VectorRows {
 public:
  VectorRows(const float** rows, std::size_t n, std::size_t stride, std::size_t d, float* memory)
      : rows_(rows), panels_(memory), n_(n) {
    if constexpr (kPanels) {
      PackPanels([&](std::size_t i) REEL_INLINE { return rows[i]; }, n, d, memory);
    } else {
      PlaceRows(rows, n, stride, d, memory);
    }
  }
  template <int N>
  HWY_INLINE auto At(std::size_t c) const {
    if constexpr (kPanels) {
      return PanelOfB{panels_ + c * n_, N * kLanes};
    } else {
      return RowsOfB{rows_, c};
    }
  }

 private:
  static constexpr bool kPanels = HWY_MAX_BYTES < 64;
  const float* const* rows_;
  const float* panels_;
  std::size_t n_;
};

// dst [panels of queries][d][kWidth] from n rows of d floats, times factor.
inline void PackTransposed(const Rows<const float>& rows, std::size_t n, std::size_t d, float factor, float* dst) {
  for (std::size_t t = 0; t < n; t += kWidth) {
    TransposePanel(rows[t], rows.stride, std::min(kWidth, n - t), d, factor, dst + t * d);
  }
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
