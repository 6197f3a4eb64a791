// The k largest of n floats, exactly, in ascending order of index: radix selection, no sorting, no data-dependent
// branches in the passes over all of them. Compiled once per instruction set (include after hwy/foreach_target.h).
#if defined(REEL_ATTENTION_TOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_ATTENTION_TOP_INL_H_
#undef REEL_ATTENTION_TOP_INL_H_
#else
#define REEL_ATTENTION_TOP_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "reel/kernels/simd-inl.h"

#ifndef REEL_ATTENTION_TOP_ONCE
#define REEL_ATTENTION_TOP_ONCE
namespace reel::attention {

// For each set of up to 8 lanes their numbers, ascending.
inline constexpr auto kLanesTaken = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t set = 0; set < 256; ++set) {
    for (std::size_t lane = 0, taken = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) != 0) table[set][taken++] = static_cast<std::uint8_t>(lane);
    }
  }
  return table;
}();

}  // namespace reel::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {
using namespace reel::kernels::HWY_NAMESPACE;  // NOLINT: the tile vocabulary

// Working memory for lists of up to n.
struct TopScratch {
  std::int32_t* order;       // n: the floats as integers of the same order
  std::int32_t* candidates;  // n
  std::uint32_t* counts;     // 4 * kBins
  static constexpr std::size_t kBins = 2048;
  static std::size_t Words(std::size_t n) { return 2 * (n + 64) + 4 * kBins; }
  TopScratch(float* memory, std::size_t n) {
    order = reinterpret_cast<std::int32_t*>(memory);
    candidates = order + n + 64;
    counts = reinterpret_cast<std::uint32_t*>(candidates + n + 64);
  }
};

// Bin of the rank-th largest (from 1) among counted values; `above` becomes the number of values in higher bins.
inline std::size_t FindBin(const std::uint32_t* counts, std::size_t bins, std::size_t rank, std::size_t& above) {
  std::size_t bin = bins;
  above = 0;
  while (bin > 0) {
    --bin;
    if (above + counts[bin] >= rank) break;
    above += counts[bin];
  }
  return bin;
}

// Stores the lanes of v that are set in the mask side by side, and perhaps others behind them; returns how many are
// set.
#if HWY_MAX_BYTES == 64
HWY_INLINE std::size_t StoreTaken(hn::Vec<hn::ScalableTag<std::int32_t>> v,
                                  hn::Mask<hn::ScalableTag<std::int32_t>> mask, std::int32_t* to) {
  return hn::CompressStore(v, mask, hn::ScalableTag<std::int32_t>(), to);
}
#else
// Highway's CompressStore keeps its table in the function, and g++ 12 copies the table to the stack for every vector: a
// quarter of all the time that selection took on Zen 3.
HWY_INLINE std::size_t StoreTaken(hn::Vec<hn::ScalableTag<std::int32_t>> v,
                                  hn::Mask<hn::ScalableTag<std::int32_t>> mask, std::int32_t* to) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  std::uint8_t bits[8];
  hn::StoreMaskBits(d, mask, bits);
  const auto lanes = hn::PromoteTo(d, hn::LoadU(bytes, kLanesTaken[bits[0]].data()));
  hn::StoreU(hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes)), d, to);
  return static_cast<std::size_t>(std::popcount(bits[0]));
}
#endif

// 64 comparisons with `least` as bits, from position i; positions from n on are 0.
HWY_INLINE std::uint64_t AtLeast(const std::int32_t* order, std::size_t i, std::size_t n, std::int32_t least) {
  const hn::ScalableTag<std::int32_t> d;
  const auto limit = hn::Set(d, least);
  std::uint64_t bits = 0;
  for (std::size_t j = 0; j < 64; j += kLanes) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, hn::Not(hn::Lt(hn::LoadU(d, order + i + j), limit)), bytes);
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    bits |= word << j;
  }
  return n - i >= 64 ? bits : bits & ((std::uint64_t{1} << (n - i)) - 1);
}

// s.order = x[0 .. n) as integers of the same order. NaN counts as larger than infinity (or, with the sign bit, as
// smaller than all).
inline void TakeOrder(const float* x, std::size_t n, const TopScratch& s) {
  const hn::ScalableTag<std::int32_t> d;
  // Negative floats descend as integers: flip their magnitude.
  for (std::size_t i = 0; i < n; i += kLanes) {
    const auto bits = hn::BitCast(d, LoadFirst(x + i, n - i));
    const auto flip = hn::And(hn::ShiftRight<31>(bits), hn::Set(d, 0x7fffffff));
    hn::StoreU(hn::Xor(bits, flip), d, s.order + i);
  }
}

struct Threshold {
  std::int32_t value;  // the k-th largest
  std::size_t ties;    // how many that equal it are among the k
  bool all_ties;       // all that equal it are
};

inline std::size_t TopBin(std::int32_t value) { return static_cast<std::size_t>((value >> 21) + 1024); }
inline std::int32_t LeastOfBin(std::size_t bin) {
  return static_cast<std::int32_t>(static_cast<std::int64_t>(bin) - 1024) * (1 << 21);
}

// The k-th largest of values[0 .. n), 0 < k <= n; `values` may be the candidates themselves.
inline Threshold RadixThreshold(const std::int32_t* values, std::size_t n, std::size_t k, const TopScratch& s) {
  // Level 1: the top 11 bits. Four counters per bin, since neighbours often fall into the same one and would wait.
  std::memset(s.counts, 0, 4 * TopScratch::kBins * sizeof(std::uint32_t));
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) ++s.counts[j * TopScratch::kBins + TopBin(values[i + j])];
  }
  for (; i < n; ++i) ++s.counts[TopBin(values[i])];
  for (std::size_t bin = 0; bin < TopScratch::kBins; ++bin) {
    for (std::size_t j = 1; j < 4; ++j) s.counts[bin] += s.counts[j * TopScratch::kBins + bin];
  }
  std::size_t above = 0, rank = k;
  const std::size_t bin = FindBin(s.counts, TopScratch::kBins, rank, above);
  rank -= above;
  // Candidates: all of that bin.
  const std::int32_t low = LeastOfBin(bin);
  std::size_t candidates = 0;
  for (i = 0; i < n; ++i) {
    const std::int32_t value = values[i];
    s.candidates[candidates] = value;
    candidates += TopBin(value) == bin;
  }
  // Levels 2 and 3: the next 11 and the last 10 bits of the candidates.
  std::int32_t threshold = low;
  for (const auto& [shift, width] : {std::pair{10, 11}, std::pair{0, 10}}) {
    const auto mask = static_cast<std::uint32_t>((1 << width) - 1);
    std::memset(s.counts, 0, TopScratch::kBins * sizeof(std::uint32_t));
    for (std::size_t c = 0; c < candidates; ++c)
      ++s.counts[(static_cast<std::uint32_t>(s.candidates[c]) >> shift) & mask];
    const std::size_t part = FindBin(s.counts, mask + std::size_t{1}, rank, above);
    rank -= above;
    threshold += static_cast<std::int32_t>(part << shift);
    std::size_t kept = 0;
    for (std::size_t c = 0; c < candidates; ++c) {
      s.candidates[kept] = s.candidates[c];
      kept += ((static_cast<std::uint32_t>(s.candidates[c]) >> shift) & mask) == part;
    }
    candidates = kept;
  }
  return {threshold, rank, candidates == rank};
}

// s.candidates = those of s.order[0 .. n) in [low, high), in any order; `above` becomes the number of those from high
// on.
inline std::size_t TakeBetween(std::size_t n, std::int32_t low, std::int32_t high, const TopScratch& s,
                               std::size_t& above) {
  const hn::ScalableTag<std::int32_t> d;
  const auto from = hn::Set(d, low), to = hn::Set(d, high);
  std::size_t i = 0, taken = 0;
  above = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto values = hn::LoadU(d, s.order + i);
    const auto below = hn::Lt(values, to);
    above += kLanes - hn::CountTrue(d, below);
    taken += StoreTaken(values, hn::AndNot(hn::Lt(values, from), below), s.candidates + taken);
  }
  for (; i < n; ++i) {
    above += s.order[i] >= high;
    s.candidates[taken] = s.order[i];
    taken += s.order[i] >= low && s.order[i] < high;
  }
  return taken;
}

constexpr std::size_t kSampled = 1024, kSampleFrom = 8192;

// The k-th largest of s.order[0 .. n), 0 < k < n. A sample tells between which bins it lies; where it does not lie
// there, all values are counted. A tenth of 32,768 keys, weighed by 16 samples of rank 16, is chosen in 0.85 of the
// time that counting all takes (Xeon, weighing included).
inline Threshold FindThreshold(std::size_t n, std::size_t k, const TopScratch& s) {
  if (n < kSampleFrom) return RadixThreshold(s.order, n, k, s);
  std::memset(s.counts, 0, TopScratch::kBins * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < kSampled; ++i) ++s.counts[TopBin(s.order[(2 * i + 1) * n / (2 * kSampled)])];
  const double expected = static_cast<double>(k) * kSampled / static_cast<double>(n);
  const double margin = 2 + 3 * std::sqrt(expected * (1 - expected / kSampled));
  std::size_t above = 0;
  const auto rank = [](double r) { return static_cast<std::size_t>(std::clamp(r, 1.0, 1.0 * kSampled)); };
  const std::size_t last = FindBin(s.counts, TopScratch::kBins, rank(expected - margin), above),
                    first = FindBin(s.counts, TopScratch::kBins, rank(expected + margin + 1), above);
  if (last + 1 < TopScratch::kBins) {
    const std::size_t candidates = TakeBetween(n, LeastOfBin(first), LeastOfBin(last + 1), s, above);
    if (above < k && k <= above + candidates) return RadixThreshold(s.candidates, candidates, k - above, s);
  }
  return RadixThreshold(s.order, n, k, s);
}

// Indices of s.order[0 .. n) that are at least `least`, ascending: how many, and they are in s.candidates.
inline std::size_t TakeIndices(std::size_t n, std::int32_t least, const TopScratch& s) {
  const hn::ScalableTag<std::int32_t> d;
  const auto limit = hn::Set(d, least);
  auto index = hn::Iota(d, 0);
  std::size_t i = 0, taken = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto small = hn::Lt(hn::LoadU(d, s.order + i), limit);
    taken += StoreTaken(index, hn::Not(small), s.candidates + taken);
    index = hn::Add(index, hn::Set(d, static_cast<std::int32_t>(kLanes)));
  }
  for (; i < n; ++i) {
    s.candidates[taken] = static_cast<std::int32_t>(i);
    taken += s.order[i] >= least;
  }
  return taken;
}

// Indices of what is above the threshold in s.order[0 .. n), and of the first ties, to out.
inline void TakeLargest(std::size_t n, const Threshold& threshold, std::int32_t* out, const TopScratch& s) {
  std::size_t ties = threshold.ties;
  for (std::size_t i = 0; i < n; i += 64) {
    for (std::uint64_t bits = AtLeast(s.order, i, n, threshold.value); bits != 0; bits &= bits - 1) {
      const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(bits));
      if (!threshold.all_ties && s.order[at] == threshold.value) {
        if (ties == 0) continue;
        --ties;
      }
      *out++ = static_cast<std::int32_t>(at);
    }
  }
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
