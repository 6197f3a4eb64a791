#include "attention/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "attention/blocks.h"
#include "kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/select.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "attention/tiles-inl.h"
#include "attention/top-inl.h"

#ifndef REEL_ATTENTION_SELECT_ONCE
#define REEL_ATTENTION_SELECT_ONCE
namespace reel::attention {

// Groups [first, last) of one head.
struct SelectUnit {
  Rows<const float> q, k;
  std::size_t keys, rank, samples, granularity, keep;
  float scale;
  std::size_t first, last;
  std::int32_t* out;  // [last - first][keep]
};

}  // namespace reel::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

constexpr std::size_t kBlockKeys = 512;  // scores of 16 samples: 32 KB
static_assert(kBlockKeys % kWidth == 0 && kBlockKeys % kTileKeys == 0);

// Scores of M rows against one panel of keys.
template <int M>
HWY_NOINLINE void LowRankTile(const float* const* rows, std::size_t rank, const float* panel, float* scores,
                              std::size_t stride) {
  const DF df;
  Tile<M, kTileVectors> tile;
  ZeroTile(tile);
  MulTile(rank, TakeRows<M>(rows), panel, kWidth, tile);
  UnrollTile<M, kTileVectors>([&](auto r, auto v) REEL_INLINE {
    hn::StoreU(tile.c[r][v], df, scores + static_cast<std::size_t>(r) * stride + v * kLanes);
  });
}

// The most by which a score may exceed its reference in ExpTile: 2^100, and sums of many, are numbers of f32.
constexpr float kMostAbove = 100.0f;

// e = 2^(scores - reference[row]) of M rows against one panel of keys; sums[row][lane] += e.
template <int M>
HWY_NOINLINE void ExpTile(const float* const* rows, std::size_t rank, const float* panel, const float* reference,
                          float* e, std::size_t stride, float* sums) {
  const DF df;
  Tile<M, kTileVectors> tile;
  ZeroTile(tile);
  MulTile(rank, TakeRows<M>(rows), panel, kWidth, tile);
  Unroll<(M + 1) / 2>([&](auto half) REEL_INLINE {  // two rows at a time: enough chains in flight, no spilling
    constexpr int kFirst = 2 * half, kRows = M - kFirst < 2 ? 1 : 2;
    VF x[kRows * kTileVectors];
    UnrollTile<kRows, kTileVectors>([&](auto r, auto v) REEL_INLINE {
      x[r * kTileVectors + v] =
          hn::Min(hn::Sub(tile.c[kFirst + r][v], hn::Set(df, reference[kFirst + r])), hn::Set(df, kMostAbove));
    });
    Exp2(x);
    Unroll<kRows>([&](auto r) REEL_INLINE {
      VF sum = hn::LoadU(df, sums + (kFirst + r) * kLanes);
      Unroll<kTileVectors>([&](auto v) REEL_INLINE {
        hn::StoreU(x[r * kTileVectors + v], df, e + static_cast<std::size_t>(kFirst + r) * stride + v * kLanes);
        sum = hn::Add(sum, x[r * kTileVectors + v]);
      });
      hn::StoreU(sum, df, sums + (kFirst + r) * kLanes);
    });
  });
}

// scores[row * stride + j] of `count` rows against keys [first, first + n).
HWY_INLINE void Scores(const float* const* rows, std::size_t count, std::size_t rank, const float* packed,
                       std::size_t first, std::size_t n, float* scores, std::size_t stride) {
  for (std::size_t j = 0; j < n; j += kWidth) {
    ForRowTiles(count, [&](auto m, std::size_t r) REEL_INLINE {
      LowRankTile<m>(rows + r, rank, packed + (first + j) * rank, scores + r * stride + j, stride);
    });
  }
}

struct SelectScratch {
  std::size_t padded;  // keys in whole blocks
  float *packed, *q, *scores, *weights, *largest, *sums, *lanes, *top;
  static std::size_t RowsAtOnce(std::size_t samples) { return samples == 1 ? kTileRows : samples; }
  static std::size_t Padded(std::size_t keys) { return (keys + kBlockKeys - 1) / kBlockKeys * kBlockKeys; }
  static std::size_t Floats(std::size_t keys, std::size_t rank, std::size_t samples) {
    const std::size_t n = Padded(keys), rows = RowsAtOnce(samples), blocks = n / kBlockKeys;
    return n * rank + rows * rank + rows * n + n + (2 * blocks + kLanes) * rows + TopScratch::Words(n);
  }
  SelectScratch(float* p, std::size_t keys, std::size_t rank, std::size_t samples) : padded(Padded(keys)) {
    const std::size_t rows = RowsAtOnce(samples), blocks = padded / kBlockKeys;
    packed = p, p += padded * rank;
    q = p, p += rows * rank;
    scores = p, p += rows * padded;
    weights = p, p += padded;
    largest = p, p += blocks * rows;
    sums = p, p += blocks * rows;
    lanes = p, p += kLanes * rows;
    top = p;
  }
};

// n scores become 2^(score - largest of them); returns that largest in `largest` and their sum.
HWY_INLINE float ExpBlock(float* x, std::size_t n, float& largest) {
  const DF df;
  VF most = hn::Set(df, -1e30f);
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) most = hn::Max(hn::LoadU(df, x + j), most);
  float m = hn::GetLane(hn::MaxOfLanes(df, most));
  for (; j < n; ++j) m = std::max(m, x[j]);
  largest = m;
  // Keys that do not exist weigh nothing: 2^-126 after the exponential, then cleared.
  VF sum[4];
  Unroll<4>([&](auto i) REEL_INLINE { sum[i] = hn::Zero(df); });
  const VF reference = hn::Set(df, m);
  for (j = 0; j < kBlockKeys; j += 4 * kLanes) {
    VF e[4];
    Unroll<4>([&](auto i) REEL_INLINE { e[i] = hn::Sub(hn::LoadU(df, x + j + i * kLanes), reference); });
    Exp2(e);
    Unroll<4>([&](auto i) REEL_INLINE { hn::StoreU(e[i], df, x + j + i * kLanes); });
    Unroll<4>([&](auto i) REEL_INLINE { sum[i] = hn::Add(sum[i], e[i]); });
  }
  if (n == kBlockKeys) {
    return hn::GetLane(hn::SumOfLanes(df, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
  }
  float total = 0;
  for (j = 0; j < n; ++j) total += x[j];
  std::memset(x + n, 0, (kBlockKeys - n) * sizeof(float));
  return total;
}

// Block b of keys: exponentials with the largest score of the block as reference.
HWY_INLINE void OwnReference(const SelectUnit& u, const float* const* rows, const SelectScratch& s, std::size_t b) {
  float* scores = s.scores + b * u.samples * kBlockKeys;
  Scores(rows, u.samples, u.rank, s.packed, b * kBlockKeys, kBlockKeys, scores, kBlockKeys);
  const std::size_t n = std::min(kBlockKeys, u.keys - b * kBlockKeys);
  for (std::size_t r = 0; r < u.samples; ++r) {
    s.sums[b * u.samples + r] = ExpBlock(scores + r * kBlockKeys, n, s.largest[b * u.samples + r]);
  }
}

// A whole block of keys with the reference of block 0: the exponentials are taken before the scores leave the
// registers, which saves two passes over them (a quarter of the time of 64 samples). False where a score is so far
// above the reference that they would not be numbers.
HWY_INLINE bool SharedReference(const SelectUnit& u, const float* const* rows, const SelectScratch& s, std::size_t b) {
  const DF df;
  float* e = s.scores + b * u.samples * kBlockKeys;
  std::memset(s.lanes, 0, u.samples * kLanes * sizeof(float));
  for (std::size_t j = 0; j < kBlockKeys; j += kWidth) {
    ForRowTiles(u.samples, [&](auto m, std::size_t r) REEL_INLINE {
      ExpTile<m>(rows + r, u.rank, s.packed + (b * kBlockKeys + j) * u.rank, s.largest + r, e + r * kBlockKeys + j,
                 kBlockKeys, s.lanes + r * kLanes);
    });
  }
  bool numbers = true;
  for (std::size_t r = 0; r < u.samples; ++r) {
    const float sum = hn::GetLane(hn::SumOfLanes(df, hn::LoadU(df, s.lanes + r * kLanes)));
    s.sums[b * u.samples + r] = sum;
    s.largest[b * u.samples + r] = s.largest[r];
    numbers &= sum < 0x1p99f;
  }
  return numbers;
}

// Weights of all keys for one group: exponentials by blocks, so that one pass is enough; then the weighted sum over
// samples.
HWY_INLINE void GroupWeights(const SelectUnit& u, const float* const* rows, const SelectScratch& s) {
  const DF df;
  const std::size_t blocks = s.padded / kBlockKeys, block_floats = u.samples * kBlockKeys;
  for (std::size_t b = 0; b < blocks; ++b) {
    const bool whole = (b + 1) * kBlockKeys <= u.keys;
    if (b == 0 || !whole || !SharedReference(u, rows, s, b)) OwnReference(u, rows, s, b);
  }
  for (std::size_t r = 0; r < u.samples; ++r) {  // sums become the factor of each block
    float m = s.largest[r], total = 0;
    for (std::size_t b = 1; b < blocks; ++b) m = std::max(m, s.largest[b * u.samples + r]);
    for (std::size_t b = 0; b < blocks; ++b)
      total += s.sums[b * u.samples + r] * std::exp2(s.largest[b * u.samples + r] - m);
    for (std::size_t b = 0; b < blocks; ++b) {
      s.sums[b * u.samples + r] = std::exp2(s.largest[b * u.samples + r] - m) / total;
    }
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    const float *e = s.scores + b * block_floats, *factor = s.sums + b * u.samples;
    // Four samples at a time along the keys: streams that the hardware fetches ahead (all samples at once are too
    // many).
    float* weights = s.weights + b * kBlockKeys;
    for (std::size_t r = 0; r < u.samples; r += 4) {
      const std::size_t rows_left = std::min<std::size_t>(4, u.samples - r);
      const float* row[4];
      VF f[4];
      for (std::size_t i = 0; i < 4; ++i) {
        row[i] = e + (r + std::min(i, rows_left - 1)) * kBlockKeys;
        f[i] = hn::Set(df, i < rows_left ? factor[r + i] : 0.0f);
      }
      for (std::size_t j = 0; j < kBlockKeys; j += kLanes) {
        VF sum = r == 0 ? hn::Zero(df) : hn::LoadU(df, weights + j);
        Unroll<4>([&](auto i) REEL_INLINE { sum = hn::MulAdd(f[i], hn::LoadU(df, row[i] + j), sum); });
        hn::StoreU(sum, df, weights + j);
      }
    }
  }
}

// weights[tile] = sum over the tile's keys (those beyond the last are 0).
inline void SumTiles(float* weights, std::size_t tiles) {
  const DF df;
  for (std::size_t t = 0; t < tiles; ++t) {
    VF sum = hn::Zero(df);
    for (std::size_t j = 0; j < kTileKeys; j += kLanes) sum = hn::Add(sum, hn::LoadU(df, weights + t * kTileKeys + j));
    weights[t] = hn::GetLane(hn::SumOfLanes(df, sum));
  }
}

void SelectGroups(const SelectUnit& u, float* scratch) {
  const SelectScratch s(scratch, u.keys, u.rank, u.samples);
  const TopScratch top(s.top, s.padded);
  for (std::size_t j = 0; j < s.padded; j += kWidth) {
    const std::size_t n = j < u.keys ? std::min(kWidth, u.keys - j) : 0;
    TransposePanel(u.k[n > 0 ? j : 0], u.k.stride, n, u.rank, 1.0f, s.packed + j * u.rank);
  }
  const bool cheap = u.samples == 1 && u.granularity == 1;
  const std::size_t at_once = cheap ? kTileRows : 1;  // groups
  std::vector<const float*> rows(at_once * u.samples);
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = s.q + r * u.rank;
  for (std::size_t g = u.first; g < u.last; g += at_once) {
    const std::size_t groups = std::min(at_once, u.last - g);
    for (std::size_t r = 0; r < groups * u.samples; ++r) {
      for (std::size_t c = 0; c < u.rank; ++c) s.q[r * u.rank + c] = u.q[g * u.samples + r][c] * (u.scale * kLog2E);
    }
    std::int32_t* out = u.out + (g - u.first) * u.keep;
    if (cheap) {
      Scores(rows.data(), groups, u.rank, s.packed, 0, s.padded, s.scores, s.padded);
      for (std::size_t i = 0; i < groups; ++i)
        TopIndices(s.scores + i * s.padded, u.keys, u.keep, out + i * u.keep, top);
    } else {
      GroupWeights(u, rows.data(), s);
      const std::size_t entries = (u.keys + u.granularity - 1) / u.granularity;
      if (u.granularity > 1) SumTiles(s.weights, entries);
      TopIndices(s.weights, entries, u.keep, out, top);
    }
  }
}

std::size_t SelectFloats(std::size_t keys, std::size_t rank, std::size_t samples) {
  return SelectScratch::Floats(keys, rank, samples);
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::attention {

HWY_EXPORT(SelectGroups);
HWY_EXPORT(SelectFloats);

namespace {

void check(const SelectInput& in) {
  if (in.batch < 0 || in.heads < 0 || in.keys < 0 || in.rank < 1 || in.samples < 1) {
    throw Error(fmt::format("selection: batch {}, heads {}, keys {}, rank {}, samples {}", in.batch, in.heads, in.keys,
                            in.rank, in.samples),
                "sizes must not be negative; rank and samples are at least 1");
  }
  if (in.granularity != 1 && in.granularity != kTileKeys) {
    throw Error(fmt::format("selection: granularity {}", in.granularity), fmt::format("use 1 or {}", kTileKeys));
  }
  const auto heads = static_cast<std::size_t>(in.batch * in.heads);
  if (in.keep.size() != 1 && in.keep.size() != heads) {
    throw Error(fmt::format("selection: {} numbers of keys to keep for {} heads", in.keep.size(), heads),
                "give one number for all heads, or one per batch item and head");
  }
  for (std::int64_t keep : in.keep) {
    if (keep < 0) throw Error(fmt::format("selection: {} keys to keep", keep), "use 0 or more");
  }
  Shape shape{in.batch, in.heads, 0, in.keys, in.rank};
  check_view("low-rank k", in.k, shape, in.keys);
  if (!in.group_starts.empty()) {
    check_view("low-rank q", in.q, shape, (static_cast<std::int64_t>(in.group_starts.size()) - 1) * in.samples);
  }
}

}  // namespace

KeyLists select(const SelectInput& in, Threads& threads) {
  check(in);
  const auto heads = static_cast<std::size_t>(in.batch * in.heads);
  KeyLists lists;
  lists.batch = in.batch, lists.heads = in.heads, lists.keys_tokens = in.keys, lists.granularity = in.granularity;
  lists.group_starts = in.group_starts;
  lists.dense_heads.assign(heads, 0);
  if (in.group_starts.empty()) lists.check();  // throws
  const auto groups = static_cast<std::size_t>(lists.groups());
  lists.offsets.assign(1, 0);
  const auto keep_of = [&](std::size_t head) { return in.keep[in.keep.size() == 1 ? 0 : head]; };
  for (std::size_t head = 0; head < heads; ++head) {
    const bool dense = keep_of(head) >= lists.entries();
    lists.dense_heads[head] = dense;
    for (std::size_t g = 0; g < groups; ++g)
      lists.offsets.push_back(lists.offsets.back() + (dense ? 0 : keep_of(head)));
  }
  lists.keys.resize(static_cast<std::size_t>(lists.offsets.back()));

  // Each unit packs the keys of its head anew, 1-2 % of its work at 32 groups and more.
  constexpr std::size_t kUnitGroups = 32;
  std::vector<SelectUnit> units;
  for (std::size_t head = 0; head < heads; ++head) {
    if (lists.dense_heads[head] != 0 || keep_of(head) == 0) continue;
    const auto b = static_cast<std::int64_t>(head) / in.heads, h = static_cast<std::int64_t>(head) % in.heads;
    for (std::size_t g = 0; g < groups; g += kUnitGroups) {
      units.push_back({rows_of(in.q, b, h, 0), rows_of(in.k, b, h, 0), static_cast<std::size_t>(in.keys),
                       static_cast<std::size_t>(in.rank), static_cast<std::size_t>(in.samples),
                       static_cast<std::size_t>(in.granularity), static_cast<std::size_t>(keep_of(head)), in.scale, g,
                       std::min(groups, g + kUnitGroups), lists.keys.data() + lists.offsets[head * groups + g]});
    }
  }
  const auto compute = REEL_DISPATCH(SelectGroups);
  const std::size_t floats = REEL_DISPATCH(SelectFloats)(
      static_cast<std::size_t>(in.keys), static_cast<std::size_t>(in.rank), static_cast<std::size_t>(in.samples));
  threads.run(static_cast<std::int64_t>(units.size()), [&](std::int64_t unit, int thread) {
    compute(units[static_cast<std::size_t>(unit)], threads.scratch(thread, floats));
  });
  lists.check();
  return lists;
}

std::vector<double> reference_weights(const SelectInput& in, std::int64_t b, std::int64_t h, std::int64_t group) {
  const auto keys = static_cast<std::size_t>(in.keys), tile = static_cast<std::size_t>(in.granularity);
  std::vector<double> weights((keys + tile - 1) / tile), p(keys);
  for (std::int64_t sample = 0; sample < in.samples; ++sample) {
    const float* q = in.q.at(b, h, group * in.samples + sample);
    for (std::size_t j = 0; j < keys; ++j) {
      p[j] = 0;
      for (std::int64_t c = 0; c < in.rank; ++c)
        p[j] += static_cast<double>(q[c]) * in.k.at(b, h, static_cast<std::int64_t>(j))[c];
      p[j] *= in.scale;
    }
    const double largest = *std::max_element(p.begin(), p.end());
    for (double& x : p) x = std::exp(x - largest);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (std::size_t j = 0; j < keys; ++j) weights[j / tile] += p[j] / sum;
  }
  return weights;
}

}  // namespace reel::attention
#endif  // HWY_ONCE
