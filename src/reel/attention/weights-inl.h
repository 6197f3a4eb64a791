// Weights of all keys for one group of sampled queries: the sum over the samples of the softmax of their scores.
// Compiled once per instruction set (include after hwy/foreach_target.h).
//
// The sum over the samples needs each sample's normaliser, which is known only after all keys, so the exponentials are
// kept until then, in 16 bits: 64 x 32,768 of them are 4 MB a group, more than a core's own cache holds. What 16 bits
// lose is bounded: only keys whose weight is within 0.8 % of the threshold are in doubt, about one in a hundred, and
// those are weighed again with all digits (ExactWeights). The choice is that of f32. docs/decisions/0012 has the times.
#if defined(REEL_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_ATTENTION_WEIGHTS_INL_H_
#undef REEL_ATTENTION_WEIGHTS_INL_H_
#else
#define REEL_ATTENTION_WEIGHTS_INL_H_
#endif

#include <cmath>

#include "reel/attention/low_rank-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

constexpr std::size_t kBlockPanels = 32;  // sums of f32 over no more panels than this, then of double
constexpr std::size_t kReferencePanels = 32;
// The most by which a score may exceed its reference: 2^100, and sums of many, are numbers of f32.
constexpr float kMostAbove = 100.0f;
// True weights are 1 to this times the weights found: exponentials are cut to 8 bits.
constexpr double kMostLost = 1 + 1.0 / 128;

// Sampled queries in words, and what is known of each.
struct Samples {
  const std::int32_t** rows;
  std::size_t count;
  float* unit;          // >= 0, with scale * log2(e): scores times this are exponents of 2
  float* reference;     // a score no more than kMostAbove / unit below the largest
  float* factor;        // 1 / sum
  double* sum;          // of 2^((score - reference) unit)
  float* lanes;         // [count][kLanes]: sums of a block
  std::uint32_t* kept;  // [panel][count][kPanelWords]: exponentials
};

// Scores of samples [first, first + M) against one panel of keys, without the samples' units.
template <int M>
HWY_NOINLINE void ScoreRows(const Samples& s, std::size_t first, std::size_t words, const KeyPanel& panel,
                            float* scores, std::size_t stride) {
  const DF df;
  ProductTile<M> tile;
  MulRows(s.rows + first, words, panel, tile);
  UnrollTile<M, kTileVectors>([&](auto r, auto v) REEL_INLINE {
    hn::StoreU(Scaled(tile.c[r][v], panel.unit + v * kLanes), df,
               scores + static_cast<std::size_t>(r) * stride + v * kLanes);
  });
}

// Scores are mild where no exponent can be larger than this, whatever the key: nothing has to be limited.
constexpr float kMostMild = 100.0f;

// e = 2^((score - reference) unit) of mild scores: 11 instructions a vector instead of 16, 9 with AVX-512 (as Exp2 of
// simd-inl.h). Minimax polynomial of degree 4, relative error below 3e-6 (6e-6 with AVX-512, which rounds the
// exponent), which only normalisers see: what is kept has 8 bits, and keys in doubt are weighed with ExpOfRow.
#if HWY_TARGET == HWY_AVX3
inline constexpr float kMildExp2[] = {1.000002623e+00f, 6.930037737e-01f, 2.414430380e-01f, 5.201094225e-02f,
                                      1.353445742e-02f};  // on [0, 1)
#else
inline constexpr float kMildExp2[] = {9.999992847e-01f, 6.931217909e-01f, 2.402474433e-01f, 5.591785908e-02f,
                                      9.570102207e-03f};  // on [-1/2, 1/2]
#endif

HWY_INLINE void ExpOfMildRow(const Samples& s, std::size_t r, const VI (&products)[kTileVectors], const float* unit,
                             VF (&e)[kTileVectors]) {
  const DF df;
  const VF reference = hn::Set(df, s.reference[r]), factor = hn::Set(df, s.unit[r]);
  VF t[kTileVectors], p[kTileVectors];
  Unroll<kTileVectors>([&](auto v) REEL_INLINE {
    const VF above = hn::MulSub(hn::ConvertTo(df, products[v]), hn::LoadU(df, unit + v * kLanes), reference);
#if HWY_TARGET == HWY_AVX3
    t[v] = hn::Mul(above, factor);
    e[v].raw = _mm512_reduce_ps(t[v].raw, kAboveFloor);
#else
    const VF magic = hn::Set(df, 12582912.0f);  // 1.5 * 2^23: the integer nearest to x is in the low bits of x + magic
    t[v] = hn::MulAdd(above, factor, magic);
    e[v] = hn::MulSub(above, factor, hn::Sub(t[v], magic));
#endif
    p[v] = hn::MulAdd(e[v], hn::Set(df, kMildExp2[4]), hn::Set(df, kMildExp2[3]));
  });
  Unroll<3>([&](auto k) REEL_INLINE {
    Unroll<kTileVectors>([&](auto v) REEL_INLINE { p[v] = hn::MulAdd(e[v], p[v], hn::Set(df, kMildExp2[2 - k])); });
  });
  Unroll<kTileVectors>([&](auto v) REEL_INLINE {
#if HWY_TARGET == HWY_AVX3
    e[v].raw = _mm512_scalef_ps(p[v].raw, t[v].raw);
#else
    const DI di;
    e[v] = hn::BitCast(df, hn::Add(hn::BitCast(di, p[v]), hn::ShiftLeft<23>(hn::BitCast(di, t[v]))));
#endif
  });
}

// The same for all scores. The difference comes first: it is exact where scores are large and close to each other.
HWY_INLINE void ExpOfRow(const Samples& s, std::size_t r, const VI (&products)[kTileVectors], const float* unit,
                         VF (&e)[kTileVectors]) {
  const DF df;
  Unroll<kTileVectors>([&](auto v) REEL_INLINE {
    const VF above = hn::Sub(Scaled(products[v], unit + v * kLanes), hn::Set(df, s.reference[r]));
    e[v] = hn::Min(hn::Mul(above, hn::Set(df, s.unit[r])), hn::Set(df, kMostAbove));
  });
  Exp2(e);
}

// The upper halves of the floats of two vectors, side by side.
HWY_INLINE void StoreHalves(VF low, VF high, std::uint32_t* to) {
  const hn::ScalableTag<std::uint32_t> du;
  const hn::Repartition<std::uint16_t, DF> dh;
  const auto shifted = hn::ShiftRight<16>(hn::BitCast(du, low));
  hn::StoreU(hn::BitCast(du, hn::OddEven(hn::BitCast(dh, high), hn::BitCast(dh, shifted))), du, to);
}

constexpr std::size_t kPanelWords = kWidth / 2;  // a panel of exponentials of one sample

HWY_INLINE void KeepRow(const VF (&e)[kTileVectors], std::uint32_t* kept, float* lanes) {
  const DF df;
  VF sum = hn::LoadU(df, lanes);
  Unroll<kTileVectors>([&](auto v) REEL_INLINE { sum = hn::Add(sum, e[v]); });
  hn::StoreU(sum, df, lanes);
  Unroll<kTileVectors / 2>([&](auto pair)
                               REEL_INLINE { StoreHalves(e[2 * pair], e[2 * pair + 1], kept + pair * kLanes); });
}

// Keeps the exponentials of samples [first, first + M) against panel p, and adds them to the lanes.
template <int M, bool kMild, bool kOne>
HWY_NOINLINE void ExpRows(const Samples& s, std::size_t first, const PackedKeys& k, std::size_t p) {
  const KeyPanel panel = k.Panel(p);
  ProductTile<M> tile;
  MulRows<kOne>(s.rows + first, k.words, panel, tile);
  std::uint32_t* kept = s.kept + (p * s.count + first) * kPanelWords;
  float* lanes = s.lanes + first * kLanes;
  Unroll<M>([&](auto r) REEL_INLINE {
    VF e[kTileVectors];
    if constexpr (kMild) {
      ExpOfMildRow(s, first + r, tile.c[r], panel.unit, e);
    } else {
      ExpOfRow(s, first + r, tile.c[r], panel.unit, e);
    }
    KeepRow(e, kept + r * kPanelWords, lanes + r * kLanes);
  });
}

// weights += factor 2^((score - reference) unit), the sum over samples [first, first + M).
template <int M>
HWY_NOINLINE void WeighRows(const Samples& s, std::size_t first, std::size_t words, const KeyPanel& panel,
                            float* weights) {
  const DF df;
  ProductTile<M> tile;
  MulRows(s.rows + first, words, panel, tile);
  Unroll<M>([&](auto r) REEL_INLINE {
    VF e[kTileVectors];
    ExpOfRow(s, first + r, tile.c[r], panel.unit, e);
    Unroll<kTileVectors>([&](auto v) REEL_INLINE {
      float* w = weights + v * kLanes;
      hn::StoreU(hn::MulAdd(hn::Set(df, s.factor[first + r]), e[v], hn::LoadU(df, w)), df, w);
    });
  });
}
HWY_INLINE void WeighPanel(const Samples& s, std::size_t words, const KeyPanel& panel, float* weights) {
  ForRowTiles(s.count, [&](auto m, std::size_t r) REEL_INLINE { WeighRows<m>(s, r, words, panel, weights); });
}

// Sets the references to the largest scores over every stride-th panel, the last keys included.
HWY_INLINE void FindReferences(const Samples& s, const PackedKeys& k, std::size_t stride) {
  const DF df;
  const std::size_t panels = k.Panels();
  std::fill_n(s.reference, s.count, -1e30f);
  for (std::size_t p = (panels - 1) % stride; p < panels; p += stride) {
    const std::size_t columns = k.Columns(p);
    HWY_ALIGN float scores[kTileRows * kWidth];
    ForRowTiles(s.count, [&](auto m, std::size_t first) REEL_INLINE {
      ScoreRows<m>(s, first, k.words, k.Panel(p), scores, kWidth);
      for (std::size_t r = 0; r < static_cast<std::size_t>(m); ++r) {
        VF most = hn::Set(df, -1e30f);
        for (std::size_t j = columns; j < kWidth; ++j) scores[r * kWidth + j] = -1e30f;
        for (std::size_t j = 0; j < kWidth; j += kLanes) most = hn::Max(hn::Load(df, scores + r * kWidth + j), most);
        s.reference[first + r] = std::max(s.reference[first + r], hn::GetLane(hn::MaxOfLanes(df, most)));
      }
    });
  }
}

// The last panel, of which `columns` exist: lanes beyond them weigh nothing.
HWY_INLINE void ExpLast(const Samples& s, const PackedKeys& k, std::size_t p, std::size_t columns) {
  const DF df;
  const KeyPanel panel = k.Panel(p);
  for (std::size_t r = 0; r < s.count; ++r) {
    ProductTile<1> tile;
    MulRows(s.rows + r, k.words, panel, tile);
    VF e[kTileVectors];
    ExpOfRow(s, r, tile.c[0], panel.unit, e);
    Unroll<kTileVectors>([&](auto v) REEL_INLINE {
      const std::size_t before = std::min<std::size_t>(columns, v * kLanes);
      e[v] = hn::IfThenElseZero(hn::FirstN(df, columns - before), e[v]);
    });
    KeepRow(e, s.kept + (p * s.count + r) * kPanelWords, s.lanes + r * kLanes);
  }
}

// Exponentials of all keys, and their sums.
template <bool kMild, bool kOne>
HWY_INLINE void ExpAll(const Samples& s, const PackedKeys& k) {
  const DF df;
  std::fill_n(s.sum, s.count, 0.0);
  for (std::size_t first = 0; first < k.Panels(); first += kBlockPanels) {
    std::memset(s.lanes, 0, s.count * kLanes * sizeof(float));
    for (std::size_t p = first; p < std::min(k.Panels(), first + kBlockPanels); ++p) {
      if (k.Columns(p) < kWidth) {
        ExpLast(s, k, p, k.Columns(p));
        continue;
      }
      ForRowTiles(s.count, [&](auto m, std::size_t r) REEL_INLINE { ExpRows<m, kMild, kOne>(s, r, k, p); });
    }
    for (std::size_t r = 0; r < s.count; ++r) {
      s.sum[r] += hn::GetLane(hn::SumOfLanes(df, hn::LoadU(df, s.lanes + r * kLanes)));
    }
  }
}

// weights[key] = sum over samples of factor * exponential, whole panels.
HWY_INLINE void WeighAll(const Samples& s, const PackedKeys& k, float* weights) {
  const DF df;
  const hn::ScalableTag<std::uint32_t> du;
  const auto upper = hn::Set(du, 0xffff0000u);
  const std::uint32_t* kept = s.kept;
  for (std::size_t p = 0; p < k.Panels(); ++p) {
    VF w[2][kTileVectors];  // of even and odd samples: as many chains as latency wants
    UnrollTile<2, kTileVectors>([&](auto i, auto v) REEL_INLINE { w[i][v] = hn::Zero(df); });
    const auto add = [&](VF(&to)[kTileVectors], std::size_t r) REEL_INLINE {
      const VF f = hn::Set(df, s.factor[r]);
      Unroll<kTileVectors / 2>([&](auto pair) REEL_INLINE {
        const auto both = hn::LoadU(du, kept + r * kPanelWords + pair * kLanes);
        to[2 * pair] = hn::MulAdd(f, hn::BitCast(df, hn::ShiftLeft<16>(both)), to[2 * pair]);
        to[2 * pair + 1] = hn::MulAdd(f, hn::BitCast(df, hn::And(both, upper)), to[2 * pair + 1]);
      });
    };
    std::size_t r = 0;
    for (; r + 2 <= s.count; r += 2) add(w[0], r), add(w[1], r + 1);
    if (r < s.count) add(w[0], r);
    Unroll<kTileVectors>(
        [&](auto v) REEL_INLINE { hn::StoreU(hn::Add(w[0][v], w[1][v]), df, weights + p * kWidth + v * kLanes); });
    kept += s.count * kPanelWords;
  }
}

HWY_INLINE bool AreNumbers(const Samples& s) {
  return std::all_of(s.sum, s.sum + s.count, [](double sum) { return sum < 0x1p99; });
}

// Weights of all keys for one group, up to kMostLost, in whole panels. Rounded rows hold numbers only, so weights are
// numbers.
inline void GroupWeights(const Samples& s, const PackedKeys& k, bool mild, float* weights) {
  FindReferences(s, k, std::max<std::size_t>(1, k.Panels() / kReferencePanels));
  if (mild) {
    if (HasPairProducts()) {
      ExpAll<true, HWY_TARGET == HWY_AVX3>(s, k);
    } else {
      ExpAll<true, false>(s, k);
    }
  } else {
    ExpAll<false, false>(s, k);
    if (!AreNumbers(s)) {  // a score far above those of the panels looked at; none is above the largest of all
      FindReferences(s, k, 1);
      ExpAll<false, false>(s, k);
    }
  }
  for (std::size_t r = 0; r < s.count; ++r) s.factor[r] = static_cast<float>(1 / s.sum[r]);
  WeighAll(s, k, weights);
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
