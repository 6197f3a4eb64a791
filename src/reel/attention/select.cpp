#include "reel/attention/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "reel/attention/blocks.h"
#include "reel/attention/low_rank.h"
#include "reel/attention/select_unit.h"
#include "reel/base/sized.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/attention/select.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/attention/chooser-inl.h"
#include "reel/attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

static_assert(lists::kTileKeys % kWidth == 0 && kTileVectors % 2 == 0);

struct SelectScratch {
  std::size_t padded, words;  // keys in whole tiles; words of a low-rank row
  std::int32_t *packed, *q;
  float *unit, *weights, *floats, *top;
  std::uint32_t* kept;
  static std::size_t Padded(std::size_t keys) {
    return (keys + lists::kTileKeys - 1) / lists::kTileKeys * lists::kTileKeys;
  }
  // One sample a group: scores of some groups at once, and no exponentials.
  static std::size_t Groups(std::size_t samples) { return samples == 1 ? kTileRows : 1; }
  static std::size_t Floats(std::size_t keys, std::size_t rank, std::size_t samples) {
    const std::size_t n = Padded(keys), groups = Groups(samples), words = WordsOfRank(rank);
    return n * words + groups * samples * words + n + groups * n + (rank + 1) * kWidth + samples * n / 2 +
           TopScratch::Words(n);
  }
  SelectScratch(float* p, std::size_t keys, std::size_t rank, std::size_t samples)
      : padded(Padded(keys)), words(WordsOfRank(rank)) {
    packed = reinterpret_cast<std::int32_t*>(p), p += padded * words;
    q = reinterpret_cast<std::int32_t*>(p), p += Groups(samples) * samples * words;
    unit = p, p += padded;
    weights = p, p += Groups(samples) * padded;
    floats = p, p += (rank + 1) * kWidth;
    kept = reinterpret_cast<std::uint32_t*>(p), p += samples * padded / 2;
    top = p;
  }
};

// What is known of each sample.
struct SampleMemory {
  std::vector<const std::int32_t*> rows;
  std::vector<float> unit, reference, factor, lanes;
  std::vector<double> sum;
  explicit SampleMemory(std::size_t n) : rows(n), unit(n), reference(n), factor(n), lanes(n * kLanes), sum(n) {}
  Samples Take(const SelectScratch& s, std::size_t count) {
    for (std::size_t r = 0; r < count; ++r) rows[r] = s.q + r * s.words;
    return {rows.data(), count, unit.data(), reference.data(), factor.data(), sum.data(), lanes.data(), s.kept};
  }
};

// Queries of groups [g, g + groups), rounded. Whether their scores are mild: `most` is the largest number in a key.
HWY_INLINE bool TakeQueries(const SelectUnit& u, std::size_t g, std::size_t groups, float most, const SelectScratch& s,
                            const Samples& samples) {
  std::vector<std::int16_t> integers(2 * s.words);
  bool mild = true;
  for (std::size_t r = 0; r < groups * u.samples; ++r) {
    samples.unit[r] = round_row(u.q[g * u.samples + r], u.rank, integers.data()) * std::abs(u.scale) * kLog2E;
    float sum = 0;
    for (const std::int16_t integer : integers) sum += std::abs(static_cast<float>(integer));
    mild = mild && 2 * sum * most * samples.unit[r] < kMostMild;  // a score and its reference, both below sum * most
    if (u.scale < 0) std::transform(integers.begin(), integers.end(), integers.begin(), std::negate<>());
    std::memcpy(s.q + r * s.words, integers.data(), s.words * sizeof(std::int32_t));
  }
  return mild;
}

// weights[tile] = sum over the tile's keys (those beyond the last are 0).
inline void SumTiles(float* weights, std::size_t tiles) {
  const DF df;
  for (std::size_t t = 0; t < tiles; ++t) {
    VF sum = hn::Zero(df);
    for (std::size_t j = 0; j < lists::kTileKeys; j += kLanes)
      sum = hn::Add(sum, hn::LoadU(df, weights + t * lists::kTileKeys + j));
    weights[t] = hn::GetLane(hn::SumOfLanes(df, sum));
  }
}

// Weights of some entries with all digits: tokens, or tiles.
HWY_INLINE void ExactWeights(const SelectUnit& u, const Samples& samples, const PackedKeys& k,
                             const std::vector<std::int32_t>& entries, std::vector<float>& weights) {
  weights.assign((entries.size() + kWidth - 1) / kWidth * kWidth, 0.0f);
  if (u.granularity > 1) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      HWY_ALIGN float of_keys[lists::kTileKeys] = {};
      const std::size_t first = sized(entries[i]) * lists::kTileKeys;
      const std::size_t columns = std::min<std::size_t>(lists::kTileKeys, u.keys - first);
      for (std::size_t j = 0; j < columns; j += kWidth) {
        WeighPanel(samples, k.words, k.Panel((first + j) / kWidth), of_keys + j);
      }
      std::fill(of_keys + columns, of_keys + lists::kTileKeys, 0.0f);  // zero rows weigh something
      SumTiles(of_keys, 1);
      weights[i] = of_keys[0];
    }
    return;
  }
  std::vector<std::int32_t> words(k.words * kWidth);
  HWY_ALIGN float unit[kWidth] = {};
  for (std::size_t first = 0; first < entries.size(); first += kWidth) {
    for (std::size_t j = 0; j < std::min(kWidth, entries.size() - first); ++j) {
      const auto key = sized(entries[first + j]);
      const KeyPanel panel = k.Panel(key / kWidth);
      for (std::size_t w = 0; w < k.words; ++w) words[w * kWidth + j] = panel.words[w * kWidth + key % kWidth];
      unit[j] = panel.unit[key % kWidth];
    }
    WeighPanel(samples, k.words, {words.data(), unit}, weights.data() + first);
  }
}

// One sample a group, tokens: the order of weights is that of scores.
void SelectByScore(const SelectUnit& u, const PackedKeys& keys, const SelectScratch& s, const TopScratch& top) {
  SampleMemory memory(kTileRows);
  Chooser chooser(u, top);
  for (std::size_t g = u.first; g < u.last; g += kTileRows) {
    const std::size_t groups = std::min<std::size_t>(kTileRows, u.last - g);
    const Samples samples = memory.Take(s, groups);
    TakeQueries(u, g, groups, 0, s, samples);
    for (std::size_t p = 0; p < keys.Panels(); ++p) {
      ForRowTiles(groups, [&](auto m, std::size_t r) REEL_INLINE {
        ScoreRows<m>(samples, r, s.words, keys.Panel(p), s.weights + r * s.padded + p * kWidth, s.padded);
      });
    }
    for (std::size_t i = 0; i < groups; ++i) chooser.Choose(g + i, s.weights + i * s.padded, 1, [](auto&, auto&) {});
  }
}

void SelectGroups(const SelectUnit& u, float* scratch) {
  const SelectScratch s(scratch, u.keys, u.rank, u.samples);
  const TopScratch top(s.top, s.padded);
  for (std::size_t j = 0; j < s.padded; j += kWidth) {
    const std::size_t n = j < u.keys ? std::min(kWidth, u.keys - j) : 0;
    PackKeys(u.k[n > 0 ? j : 0], u.k.stride, n, u.rank, s.floats, s.packed + j * s.words, s.unit + j);
  }
  const PackedKeys keys{s.packed, s.unit, u.keys, s.words};
  if (u.samples == 1 && u.granularity == 1) return SelectByScore(u, keys, s, top);

  SampleMemory memory(u.samples);
  const Samples samples = memory.Take(s, u.samples);
  Chooser chooser(u, top);
  const float most = *std::max_element(s.unit, s.unit + u.keys) * largest_integer(u.rank);
  for (std::size_t g = u.first; g < u.last; ++g) {
    const bool mild = TakeQueries(u, g, 1, most, s, samples);
    GroupWeights(samples, keys, mild, s.weights);
    if (u.granularity > 1) {
      std::fill(s.weights + u.keys, s.weights + s.padded, 0.0f);
      SumTiles(s.weights, s.padded / lists::kTileKeys);
    }
    chooser.Choose(g, s.weights, kMostLost,
                   [&](const auto& entries, auto& weights) { ExactWeights(u, samples, keys, entries, weights); });
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
  if (in.granularity != 1 && in.granularity != lists::kTileKeys) {
    throw Error(fmt::format("selection: granularity {}", in.granularity), fmt::format("use 1 or {}", lists::kTileKeys));
  }
  const auto heads = sized(in.batch * in.heads);
  if (in.keep.size() != 1 && in.keep.size() != heads) {
    throw Error(fmt::format("selection: {} numbers of keys to keep for {} heads", in.keep.size(), heads),
                "give one number for all heads, or one per batch item and head");
  }
  for (std::int64_t keep : in.keep) {
    if (keep < 0) throw Error(fmt::format("selection: {} keys to keep", keep), "use 0 or more");
  }
  const std::int64_t entries = (in.keys + in.granularity - 1) / in.granularity;
  for (std::size_t i = 0; i < in.always.size(); ++i) {
    if (in.always[i] < 0 || in.always[i] >= entries || (i > 0 && in.always[i] <= in.always[i - 1])) {
      throw Error(fmt::format("selection: entry {} of {} is always kept", in.always[i], entries),
                  "name entries that there are, in ascending order");
    }
  }
  if (in.keep_own && !in.group_starts.empty() &&
      (in.group_starts.front() != 0 || in.first_query < 0 || in.first_query > in.keys - in.group_starts.back() ||
       !std::is_sorted(in.group_starts.begin(), in.group_starts.end()))) {
    throw Error(fmt::format("selection: groups from query {} to {} cannot keep their own of {} keys, from key {} on",
                            in.group_starts.front(), in.group_starts.back(), in.keys, in.first_query),
                "groups ascend from 0, and query i is key first_query + i");
  }
  Shape shape{in.batch, in.heads, 0, in.keys, in.rank};
  check_view("low-rank k", in.k, shape, in.keys);
  if (!in.group_starts.empty()) {
    check_view("low-rank q", in.q, shape, (static_cast<std::int64_t>(in.group_starts.size()) - 1) * in.samples);
  }
}

}  // namespace

lists::KeyLists select(const SelectInput& in, Threads& threads) {
  check(in);
  const auto heads = sized(in.batch * in.heads);
  lists::KeyLists lists;
  lists.batch = in.batch, lists.heads = in.heads, lists.keys_tokens = in.keys, lists.granularity = in.granularity;
  lists.group_starts = in.group_starts;
  lists.dense_heads.assign(heads, 0);
  if (in.group_starts.empty()) lists.check();  // throws
  const auto groups = sized(lists.groups());
  lists.offsets.assign(1, 0);
  const auto tile = sized(in.granularity);
  std::vector<std::int64_t> held(groups, static_cast<std::int64_t>(in.always.size()));  // of a list in any case
  for (std::size_t g = 0; g < groups && in.keep_own; ++g) {
    const auto [begin, end] = own_entries(in.group_starts.data(), static_cast<std::int32_t>(in.first_query), g, tile);
    const auto at = std::lower_bound(in.always.begin(), in.always.end(), begin);
    held[g] += end - begin - (std::lower_bound(at, in.always.end(), end) - at);
  }
  for (std::size_t head = 0; head < heads; ++head) {
    const std::int64_t keep = in.keep[in.keep.size() == 1 ? 0 : head];
    const bool dense = keep >= lists.entries();
    lists.dense_heads[head] = dense;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::int64_t size = in.keep_beside ? std::min(keep + held[g], lists.entries()) : std::max(keep, held[g]);
      lists.offsets.push_back(lists.offsets.back() + (dense ? 0 : size));
    }
  }
  lists.keys.resize(sized(lists.offsets.back()));

  // Each unit packs the keys of its head anew, 1-2 % of its work at 32 groups and more.
  constexpr std::size_t kUnitGroups = 32;
  std::vector<SelectUnit> units;
  for (std::size_t head = 0; head < heads; ++head) {
    const std::int64_t* offsets = lists.offsets.data() + head * groups;
    if (offsets[groups] == offsets[0]) continue;  // dense, or nothing is kept
    const auto b = static_cast<std::int64_t>(head) / in.heads, h = static_cast<std::int64_t>(head) % in.heads;
    for (std::size_t g = 0; g < groups; g += kUnitGroups) {
      units.push_back({rows_of(in.q, b, h, 0), rows_of(in.k, b, h, 0), sized(in.keys), sized(in.rank),
                       sized(in.samples), tile, in.scale, g, std::min(groups, g + kUnitGroups),
                       in.keep_own ? in.group_starts.data() : nullptr, static_cast<std::int32_t>(in.first_query),
                       in.always, offsets, lists.keys.data()});
    }
  }
  const auto compute = REEL_DISPATCH(SelectGroups);
  const std::size_t floats = REEL_DISPATCH(SelectFloats)(sized(in.keys), sized(in.rank), sized(in.samples));
  threads.run(static_cast<std::int64_t>(units.size()),
              [&](std::int64_t unit, int thread) { compute(units[sized(unit)], threads.scratch(thread, floats)); });
  lists.check();
  return lists;
}

std::vector<double> reference_weights(const SelectInput& in, std::int64_t b, std::int64_t h, std::int64_t group) {
  const auto keys = sized(in.keys), tile = sized(in.granularity), rank = sized(in.rank);
  std::vector<double> weights((keys + tile - 1) / tile), p(keys), q(rank), k(rank);
  for (std::int64_t sample = 0; sample < in.samples; ++sample) {
    const double q_unit = round_row(in.q.at(b, h, group * in.samples + sample), rank, q.data());
    for (std::size_t j = 0; j < keys; ++j) {
      const double k_unit = round_row(in.k.at(b, h, static_cast<std::int64_t>(j)), rank, k.data());
      p[j] = std::inner_product(q.begin(), q.end(), k.begin(), 0.0) * q_unit * k_unit * in.scale;
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
