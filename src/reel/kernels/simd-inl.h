// Width-agnostic f32 building blocks, compiled once per instruction set (include after hwy/foreach_target.h).
//
// One register tile serves every product: up to kTileRows rows (scalars, broadcast) times kTileVectors vectors, kWidth
// floats. A is read along rows, A(r, k) = *at(r, k) = row[r][k], or along columns, p[k * stride + r]; B is a panel,
// B(k) = p + k * stride, or rows of their own, B(k) = rows[k].
#if defined(REEL_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_SIMD_INL_H_
#undef REEL_KERNELS_SIMD_INL_H_
#else
#define REEL_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// For lambdas: they inherit no target attribute from the function they stand in.
#define REEL_INLINE HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(float);  // the targets in use have fixed width

// 6 x 2: 12 of 16 registers accumulate; 98 of 102.5 GFLOP/s on Zen 3 (4x3 reaches 95, 8x1 is load bound at 71).
// With 32 registers 6 x 4: 34 instructions for 24 multiply-adds, where 12 x 2 has 38. Alone on a core that makes no
// difference; with a busy neighbour on it attention runs 1.06-1.15 times as fast (docs/decisions/0018).
constexpr int kTileRows = 6, kTileVectors = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 ? 2 : 4;
constexpr std::size_t kWidth = kTileVectors * kLanes;  // floats of a panel row

template <int N>
using Int = std::integral_constant<int, N>;

// f(Int<0>), f(Int<1>), ... Loops with `#pragma GCC unroll` leave accumulator arrays in memory with g++ 12 (half the
// speed); constant indices from the start keep them in registers.
template <int N, class F>
HWY_INLINE void Unroll(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) REEL_INLINE { (f(Int<I>()), ...); }
  (std::make_integer_sequence<int, N>());
}
template <int M, int N, class F>
HWY_INLINE void UnrollTile(const F& f) {
  Unroll<M>([&](auto r) REEL_INLINE { Unroll<N>([&](auto v) REEL_INLINE { f(r, v); }); });
}

template <int M>
struct RowsOfA {  // A(r, k) = p[r][k]
  const float* p[M];
  HWY_INLINE const float* at(int r, std::size_t k) const { return p[r] + k; }
};
struct ColumnsOfA {  // A(r, k) = p[k * stride + r]
  const float* p;
  std::size_t stride;
  HWY_INLINE const float* at(int r, std::size_t k) const { return p + k * stride + r; }
};

template <int M, int N>
struct Tile {
  VF c[M][N];
};

template <int M, int N>
HWY_INLINE void ZeroTile(Tile<M, N>& tile) {
  UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { tile.c[r][v] = hn::Zero(DF()); });
}

struct PanelOfB {  // B(k) = p + k * stride
  const float* p;
  std::size_t stride;
  HWY_INLINE const float* operator()(std::size_t k) const { return p + k * stride; }
};
struct RowsOfB {  // B(k) = rows[k] + offset
  const float* const* rows;
  std::size_t offset;
  HWY_INLINE const float* operator()(std::size_t k) const { return rows[k] + offset; }
};

// tile += A B for step k.
template <int M, int N, class A, class B>
HWY_INLINE void MulStep(std::size_t k, const A& a, const B& b, Tile<M, N>& tile) {
  VF x[N];
  const float* HWY_RESTRICT row = b(k);
  Unroll<N>([&](auto v) REEL_INLINE { x[v] = hn::LoadU(DF(), row + v * kLanes); });
  Unroll<M>([&](auto r) REEL_INLINE {
    const VF y = hn::Set(DF(), *a.at(r, k));
    Unroll<N>([&](auto v) REEL_INLINE { tile.c[r][v] = hn::MulAdd(y, x[v], tile.c[r][v]); });
  });
}
// tile += A B over steps [first, last).
template <int M, int N, class A, class B>
HWY_INLINE void MulTile(std::size_t first, std::size_t last, const A& a, const B& b, Tile<M, N>& tile) {
#pragma GCC unroll 2
  for (std::size_t k = first; k < last; ++k) MulStep(k, a, b, tile);
}
template <int M, int N, class A>
HWY_INLINE void MulTile(std::size_t n, const A& a, const float* HWY_RESTRICT panel, std::size_t stride,
                        Tile<M, N>& tile) {
  MulTile(0, n, a, PanelOfB{panel, stride}, tile);
}

// Covers n rows (or vectors, or whatever has kMost in a tile) by tiles of nearly equal height (32 rows: 6 6 5 5 5 5
// instead of 6 6 6 6 6 2): f(Int<rows>, first row).
template <int kMost = kTileRows, class F>
HWY_INLINE void ForRowTiles(std::size_t n, const F& f) {
  if (n == 0) return;
  const std::size_t tiles = (n + kMost - 1) / kMost, low = n / tiles, high = n % tiles;
  std::size_t i = 0;
  for (std::size_t t = 0; t < tiles; ++t) {
    const int rows = static_cast<int>(low + (t < high));
    [&]<int... M>(std::integer_sequence<int, M...>) REEL_INLINE {
      (void)((rows == M + 1 && (f(Int<M + 1>(), i), true)) || ...);
    }
    (std::make_integer_sequence<int, kMost>());
    i += static_cast<std::size_t>(rows);
  }
}

// The first n lanes of a vector in memory, 0 < n < kLanes; the rest are zero when loaded and untouched when stored.
// Where Highway's masked load reads the whole vector (SSE4's is even an aligned load of it), the part goes through a
// small array.
HWY_INLINE VF LoadPart(const float* p, std::size_t n) {
  const DF d;
#if HWY_MAX_BYTES >= 32
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float lanes[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}
// Below AVX-512 through a small array, in pieces of 4, 2 and 1: AVX2's masked store is slow on AMD (a rotary embedding
// of 36 pairs takes 0.141 ns a float with pieces and 0.185 with masks on Zen 3).
HWY_INLINE void StorePart(VF v, float* p, std::size_t n) {
  const DF d;
#if HWY_MAX_BYTES == 64
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  static_assert(kLanes <= 8);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  std::size_t i = 0;
  if (n & 4) std::memcpy(p, lanes, 16), i = 4;
  if (n & 2) std::memcpy(p + i, lanes + i, 8), i += 2;
  if (n & 1) p[i] = lanes[i];
#endif
}
// The same for any n > 0: a whole vector where n reaches beyond one.
HWY_INLINE VF LoadFirst(const float* p, std::size_t n) { return n >= kLanes ? hn::LoadU(DF(), p) : LoadPart(p, n); }
HWY_INLINE void StoreFirst(VF v, float* p, std::size_t n) {
  if (n >= kLanes) {
    hn::StoreU(v, DF(), p);
  } else {
    StorePart(v, p, n);
  }
}

// 2^x for N vectors in place, relative error below 2e-7 with its rounding, and none for whole x: softmax over one key
// is 1. Below -126 the result is 2^-126, never a subnormal; NaN stays NaN (Max returns its second argument for NaN on
// x86, and what follows keeps it). x above 127 is the caller's to prevent.
#if HWY_TARGET == HWY_AVX3
// Minimax polynomial of degree 5 on [0, 1) that is 1 at 0; AVX-512 has the fraction above the next lower integer, and
// the product with a power of two: 1.80 instead of 2.40 ns a vector on a Xeon of 2.7 GHz.
constexpr int kAboveFloor = 0x09;  // of _mm512_reduce_ps: x minus the whole number below it, no inexact flag
inline constexpr float kExp2[] = {
    1.0f, 6.931510568e-01f, 2.401656508e-01f, 5.579930171e-02f, 9.014884941e-03f, 1.868956373e-03f};
template <int N>
HWY_INLINE void Exp2(VF (&x)[N]) {
  const DF d;
  VF r[N], p[N];
  Unroll<N>([&](auto i) REEL_INLINE { x[i] = hn::Max(hn::Set(d, -126.0f), x[i]); });
  Unroll<N>([&](auto i) REEL_INLINE { r[i].raw = _mm512_reduce_ps(x[i].raw, kAboveFloor); });
  Unroll<N>([&](auto i) REEL_INLINE { p[i] = hn::MulAdd(r[i], hn::Set(d, kExp2[5]), hn::Set(d, kExp2[4])); });
  Unroll<4>([&](auto k) REEL_INLINE {
    Unroll<N>([&](auto i) REEL_INLINE { p[i] = hn::MulAdd(r[i], p[i], hn::Set(d, kExp2[3 - k])); });
  });
  Unroll<N>([&](auto i) REEL_INLINE { x[i].raw = _mm512_scalef_ps(p[i].raw, x[i].raw); });
}
#else
// Minimax polynomial of degree 5 on [-1/2, 1/2].
inline constexpr float kExp2[] = {
    1.0f, 6.931470037e-01f, 2.402224243e-01f, 5.550733581e-02f, 9.671512991e-03f, 1.326472731e-03f};
template <int N>
HWY_INLINE void Exp2(VF (&x)[N]) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  // 1.5 * 2^23 rounds to an integer n in the low bits; + 127 makes them the exponent bits of 2^n.
  const VF magic = hn::Set(d, 12582912.0f + 127.0f);
  VF t[N], p[N];
  Unroll<N>([&](auto i) REEL_INLINE { x[i] = hn::Max(hn::Set(d, -126.0f), x[i]); });
  Unroll<N>([&](auto i) REEL_INLINE { t[i] = hn::Add(x[i], magic); });
  Unroll<N>([&](auto i) REEL_INLINE { x[i] = hn::Sub(x[i], hn::Sub(t[i], magic)); });
  Unroll<N>([&](auto i) REEL_INLINE { p[i] = hn::MulAdd(x[i], hn::Set(d, kExp2[5]), hn::Set(d, kExp2[4])); });
  Unroll<4>([&](auto k) REEL_INLINE {
    Unroll<N>([&](auto i) REEL_INLINE { p[i] = hn::MulAdd(x[i], p[i], hn::Set(d, kExp2[3 - k])); });
  });
  Unroll<N>([&](auto i)
                REEL_INLINE { x[i] = hn::Mul(p[i], hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t[i])))); });
}
#endif
HWY_INLINE VF Exp2(VF x) {
  VF one[1] = {x};
  Exp2(one);
  return one[0];
}

// Rows become columns in every block of 128 bits of four vectors.
template <class D>
HWY_INLINE void Transpose4(D d, hn::Vec<D> (&rows)[4]) {
  const hn::Repartition<double, D> dd;
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, rows[0], rows[1])),
             b = hn::BitCast(dd, hn::InterleaveLower(d, rows[2], rows[3])),
             e = hn::BitCast(dd, hn::InterleaveUpper(d, rows[0], rows[1])),
             g = hn::BitCast(dd, hn::InterleaveUpper(d, rows[2], rows[3]));
  rows[0] = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
  rows[1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
  rows[2] = hn::BitCast(d, hn::InterleaveLower(dd, e, g));
  rows[3] = hn::BitCast(d, hn::InterleaveUpper(dd, e, g));
}

// dst[i * dst_stride + j] = factor * src[j * stride + i] for i < 4, j < lanes of D.
template <class D>
HWY_INLINE void TransposeBlock(D d, const float* HWY_RESTRICT src, std::size_t stride, float factor,
                               float* HWY_RESTRICT dst, std::size_t dst_stride) {
  hn::Vec<D> four[4];
  Unroll<4>([&](auto i) REEL_INLINE {
#if HWY_TARGET == HWY_AVX3
    if constexpr (hn::MaxLanes(d) == 16) {  // row i, i + 4, i + 8, i + 12: inserted from memory they need no shuffle
      const auto at = [&](int block) REEL_INLINE { return _mm_loadu_ps(src + (i + 4 * block) * stride); };
      __m512 rows = _mm512_castps128_ps512(at(0));
      rows = _mm512_insertf32x4(rows, at(1), 1);
      rows = _mm512_insertf32x4(rows, at(2), 2);
      four[i].raw = _mm512_insertf32x4(rows, at(3), 3);
    } else
#endif
      four[i] = hn::LoadU(d, src + i * stride);
  });
  Transpose4(d, four);
  const auto f = hn::Set(d, factor);
  Unroll<4>([&](auto i) REEL_INLINE { hn::StoreU(hn::Mul(f, four[i]), d, dst + i * dst_stride); });
}

// dst[k * W + j] = factor * src[j * stride + k] for j < rows, k < n; zero for rows <= j < W: one transposed panel.
template <std::size_t W = kWidth>
HWY_INLINE void TransposePanel(const float* HWY_RESTRICT src, std::size_t stride, std::size_t rows, std::size_t n,
                               float factor, float* HWY_RESTRICT dst) {
  std::size_t k = 0;
  for (; k + 4 <= n; k += 4) {
    std::size_t j = 0;
    if constexpr (HWY_MAX_BYTES == 64) {
      for (; j + kLanes <= rows; j += kLanes) {
        TransposeBlock(DF(), src + j * stride + k, stride, factor, dst + k * W + j, W);
      }
    }
    for (; j + 4 <= rows; j += 4) {
      TransposeBlock(hn::Full128<float>(), src + j * stride + k, stride, factor, dst + k * W + j, W);
    }
    for (; j < W; ++j) {
      for (std::size_t i = k; i < k + 4; ++i) dst[i * W + j] = j < rows ? factor * src[j * stride + i] : 0.0f;
    }
  }
  for (; k < n; ++k) {
    for (std::size_t j = 0; j < W; ++j) dst[k * W + j] = j < rows ? factor * src[j * stride + k] : 0.0f;
  }
}

// dst[i * W + j] = row(i)[j] for i < n, j < columns; zero for columns <= j < W: one panel of rows, N vectors wide.
template <int N, class Row>
HWY_INLINE void CopyPanel(const Row& row, std::size_t n, std::size_t columns, float* HWY_RESTRICT dst) {
  constexpr std::size_t W = N * kLanes;
  const DF d;
  if (columns >= W) {
    for (std::size_t i = 0; i < n; ++i) {
      const float* HWY_RESTRICT src = row(i);
      Unroll<N>([&](auto v) REEL_INLINE { hn::StoreU(hn::LoadU(d, src + v * kLanes), d, dst + i * W + v * kLanes); });
    }
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const float* src = row(i);
    for (std::size_t v = 0; v < W; v += kLanes) {
      hn::StoreU(v < columns ? LoadFirst(src + v, columns - v) : hn::Zero(d), d, dst + i * W + v);
    }
  }
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
