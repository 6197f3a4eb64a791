// Products of rounded low-rank rows (low_rank.h). Compiled once per instruction set (include after
// hwy/foreach_target.h).
//
// Two neighbouring integers of a row share a word. Queries are rows of words, broadcast; keys are packed by panels,
// [panel][words of a row][kWidth].
#if defined(REEL_ATTENTION_LOW_RANK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_ATTENTION_LOW_RANK_INL_H_
#undef REEL_ATTENTION_LOW_RANK_INL_H_
#else
#define REEL_ATTENTION_LOW_RANK_INL_H_
#endif

#include "reel/attention/low_rank.h"
#include "reel/attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

using DI = hn::ScalableTag<std::int32_t>;
using VI = hn::Vec<DI>;

inline std::size_t WordsOfRank(std::size_t rank) { return (rank + 1) / 2; }

// One panel of keys.
struct KeyPanel {
  const std::int32_t* words;  // [words of a row][kWidth]
  const float* unit;          // [kWidth]
};

// Keys of one head; those beyond the last are zero rows.
struct PackedKeys {
  const std::int32_t* packed;
  const float* unit;
  std::size_t keys, words;
  std::size_t Panels() const { return (keys + kWidth - 1) / kWidth; }
  KeyPanel Panel(std::size_t p) const { return {packed + p * kWidth * words, unit + p * kWidth}; }
  std::size_t Columns(std::size_t p) const { return std::min(kWidth, keys - p * kWidth); }
};

// `rows` rows of keys, no more than kWidth, to one panel. `floats` has room for (rank + 1) * kWidth.
inline void PackKeys(const float* keys, std::size_t stride, std::size_t rows, std::size_t rank, float* floats,
                     std::int32_t* words, float* unit) {
  const DF df;
  const DI di;
  TransposePanel(keys, stride, rows, rank, 1.0f, floats);
  std::memset(floats + rank * kWidth, 0, kWidth * sizeof(float));
  const VF most = hn::Set(df, largest_integer(rank)), beyond = hn::Add(most, hn::Set(df, 1.0f));
  for (std::size_t j = 0; j < kWidth; j += kLanes) {
    VF largest = hn::Zero(df);
    for (std::size_t c = 0; c < rank; ++c) {
      const VF x = hn::Abs(hn::LoadU(df, floats + c * kWidth + j));
      largest = hn::IfThenElse(hn::Gt(x, largest), x, largest);  // NaN is never larger
    }
    const auto numbers =
        hn::And(hn::Ge(largest, hn::Set(df, kLeastMagnitude)), hn::Le(largest, hn::Set(df, kMostMagnitude)));
    const VF factor = hn::IfThenElseZero(numbers, hn::Div(most, largest));
    hn::StoreU(hn::IfThenElseZero(numbers, hn::Div(largest, most)), df, unit + j);
    const auto integers = [&](std::size_t c) REEL_INLINE {
      const VF x = hn::Mul(hn::LoadU(df, floats + c * kWidth + j), factor);
      return hn::NearestInt(hn::IfThenElseZero(hn::Lt(hn::Abs(x), beyond), x));  // inf and NaN become 0
    };
    for (std::size_t w = 0; w < WordsOfRank(rank); ++w) {
      const VI low = hn::And(integers(2 * w), hn::Set(di, 0xffff)), high = hn::ShiftLeft<16>(integers(2 * w + 1));
      hn::StoreU(hn::Or(low, high), di, words + w * kWidth + j);
    }
  }
}

// Whether the CPU adds products of 16-bit pairs in one instruction (AVX512-VNNI), which the target alone does not say.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE bool HasPairProducts() { return __builtin_cpu_supports("avx512vnni"); }
#else
HWY_INLINE bool HasPairProducts() { return false; }
#endif

// sum += the products of both halves of each word; kOne: in one instruction. In order, and the sum where it was: left
// to itself g++ 12 begins all products of a step before it adds the first, so that six of twelve sums live in memory,
// and copies sums from register to register.
template <bool kOne = false>
HWY_INLINE void AddPairProducts(VI a, VI b, VI& sum) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (kOne) {
    asm volatile("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  } else {
    decltype(sum.raw) product;
    asm volatile(
        "vpmaddwd %3, %2, %1\n\t"
        "vpaddd %1, %0, %0"
        : "+v"(sum.raw), "=&v"(product)
        : "v"(a.raw), "v"(b.raw));
  }
#elif HWY_ARCH_X86
  const hn::Repartition<std::int16_t, DI> dh;
  VI unused = hn::Zero(DI());
  sum = hn::ReorderWidenMulAccumulate(DI(), hn::BitCast(dh, a), hn::BitCast(dh, b), sum, unused);
  asm volatile("" : "+v"(sum.raw));
#else  // elsewhere that operation adds other lanes
  const VI low = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b)));
  sum = hn::Add(sum, hn::Add(low, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b))));
#endif
}

template <int M>
struct ProductTile {
  VI c[M][kTileVectors];
};

// Products of M rows and one panel of keys, in units of the rows; of the keys' units, too, once Scaled.
template <bool kOne = false, int M>
HWY_INLINE void MulRows(const std::int32_t* const* rows, std::size_t words, const KeyPanel& panel,
                        ProductTile<M>& tile) {
  const DI di;
  UnrollTile<M, kTileVectors>([&](auto r, auto v) REEL_INLINE { tile.c[r][v] = hn::Zero(di); });
  const std::int32_t* row[M];
  Unroll<M>([&](auto r) REEL_INLINE { row[r] = rows[r]; });
  for (std::size_t w = 0; w < words; ++w) {
    VI b[kTileVectors];
    Unroll<kTileVectors>([&](auto v) REEL_INLINE { b[v] = hn::LoadU(di, panel.words + w * kWidth + v * kLanes); });
    Unroll<M>([&](auto r) REEL_INLINE {
      const VI a = hn::Set(di, row[r][w]);
      Unroll<kTileVectors>([&](auto v) REEL_INLINE { AddPairProducts<kOne>(a, b[v], tile.c[r][v]); });
    });
  }
}
HWY_INLINE VF Scaled(VI product, const float* unit) {
  const DF df;
  VF score = hn::Mul(hn::ConvertTo(df, product), hn::LoadU(df, unit));
  // Rounded here, always: fused with what follows, the largest score would not differ from itself by 0.
#if HWY_ARCH_X86
  asm("" : "+v"(score.raw));
#elif HWY_ARCH_ARM
  asm("" : "+w"(score.raw));
#endif
  return score;
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
