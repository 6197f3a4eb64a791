#include "reel/plan/baselines.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reel/base/sized.h"

namespace reel::plan {

namespace {

using Weights = std::vector<double>;

Indices by_descending(const Weights& weights) {
  Indices order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return weights[sized(a)] > weights[sized(b)]; });
  return order;
}

Indices zig_zag(std::size_t count, int bins) {
  Indices bin = runs(static_cast<std::int64_t>(count), 2 * bins);
  for (std::int32_t& b : bin) b = std::min(b, 2 * bins - 1 - b);
  return bin;
}

// Sorted, then 0, 1, .., n - 1, n - 1, .., 1, 0, 0, 1, ...
Indices to_and_fro(const Weights& weights, int bins) {
  Indices bin(weights.size());
  std::int32_t at = 0;
  for (const std::int32_t x : by_descending(weights)) {
    const std::int32_t place = at++ % (2 * bins);
    bin[sized(x)] = std::min(place, 2 * bins - 1 - place);
  }
  return bin;
}

// Longest first to the emptiest bin that holds fewer than `most`; the load of bin `present[x]` is seen as `reward`
// times the item's own weight lower.
Indices greedy(const Weights& weights, int bins, std::int64_t most, double reward = 0, const Indices& present = {}) {
  Weights load(sized(bins), 0.0);
  std::vector<std::int64_t> held(sized(bins), 0);
  Indices bin(weights.size());
  for (const std::int32_t x : by_descending(weights)) {
    const double weight = weights[sized(x)];
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int b = 0; b < bins; ++b) {
      if (held[sized(b)] >= most) continue;
      const bool here = reward > 0 && present[sized(x)] == b;
      const double seen = load[sized(b)] - (here ? reward * weight : 0);
      if (seen < least) least = seen, best = b;
    }
    bin[sized(x)] = best;
    load[sized(best)] += weight;
    ++held[sized(best)];
  }
  return bin;
}

std::int64_t share_of(std::size_t count, int bins) { return (static_cast<std::int64_t>(count) + bins - 1) / bins; }

// Work of rows and keys of columns, all heads together: these rules know one mask for all of them.
Weights row_weights(const Counts& work, int visits) {
  Weights sums(sized(work.rows), 0.0);
  for (std::size_t i = 0; i < work.row_keys.size(); ++i) {
    if (work.row_keys[i] == 0) continue;
    const std::size_t row = i % sums.size();
    sums[row] += work.cost.fixed * static_cast<double>(work.batch) * visits +
                 work.cost.per_key * static_cast<double>(work.row_scale[row]) * work.row_keys[i];
  }
  return sums;
}

Weights column_weights(const Counts& work) {
  std::vector<float> sums(sized(work.columns), 0.0f);
  for (std::int64_t head = 0; head < work.heads; ++head) {
    for (std::int64_t row = 0; row < work.rows; ++row) {
      const std::uint16_t* keys = work.keys_of(head, row);
      const float scale = work.row_scale[sized(row)];
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += scale * static_cast<float>(keys[c]);
    }
  }
  return {sums.begin(), sums.end()};
}

// The same rows and keys for every Ulysses group.
Partition shared(const Indices& heads, const Indices& rows, const Indices& keys, int ulysses, int ring) {
  const auto groups = sized(ulysses);
  return {ulysses, ring, lists_of(heads, ulysses), std::vector(groups, lists_of(rows, ring)),
          std::vector(groups, lists_of(keys, ring))};
}

Partition make_zig_zag(const Counts& work, int ulysses, int ring) {
  return shared(zig_zag(sized(work.heads), ulysses), zig_zag(sized(work.rows), ring),
                zig_zag(sized(work.columns), ring), ulysses, ring);
}

Partition make_db_sp(const Counts& work, int ulysses, int ring) {
  constexpr double kReward = 2;  // the value its experiments use
  const Weights heads = work.head_work(ring);
  const Indices group = greedy(heads, ulysses, share_of(heads.size(), ulysses));
  if (ring == 1) return shared(group, runs(work.rows, 1), runs(work.columns, 1), ulysses, 1);
  const Weights rows = row_weights(work, ring), columns = column_weights(work);
  return shared(group, greedy(rows, ring, share_of(rows.size(), ring), kReward, runs(work.rows, ring)),
                greedy(columns, ring, share_of(columns.size(), ring), kReward, runs(work.columns, ring)), ulysses,
                ring);
}

Partition make_magi(const Counts& work, int ulysses, int ring) {
  const Weights heads = work.head_work(ring), rows = row_weights(work, ring);
  const Indices place = greedy(rows, ring, share_of(rows.size(), ring));
  return shared(greedy(heads, ulysses, share_of(heads.size(), ulysses)), place,
                work.rows == work.columns ? place : runs(work.columns, ring), ulysses, ring);
}

Partition make_ptrr(const Counts& work, int ulysses, int ring) {
  return shared(to_and_fro(work.head_work(ring), ulysses), to_and_fro(row_weights(work, ring), ring),
                runs(work.columns, ring), ulysses, ring);
}

Partition make_dsv(const Counts& work, int ulysses, int ring) {
  const Weights heads = work.head_work(ring);
  return shared(greedy(heads, ulysses, work.heads), runs(work.rows, ring), runs(work.columns, ring), ulysses, ring);
}

}  // namespace

const std::vector<Baseline>& baselines() {
  static const std::vector<Baseline> all = {
      {"contiguous", contiguous},   {"zig-zag", make_zig_zag},   {"db-SP", make_db_sp},
      {"MagiAttention", make_magi}, {"PyTorch PTRR", make_ptrr}, {"DSV", make_dsv},
  };
  return all;
}

}  // namespace reel::plan
