#include "sparsity/profile.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "base/buffer.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/softmax.h"

namespace reel::sparsity {

namespace {

// Positive floats in order of size by their leading 16 bits: 128 buckets for each power of two.
struct Buckets {
  std::array<double, 1 << 15> mass{};
  std::array<std::int64_t, 1 << 15> count{};
};

std::size_t bucket_of(float value) { return value > 0 ? std::bit_cast<std::uint32_t>(value) >> 16 & 0x7fff : 0; }

void fill(Buckets& b, std::span<const float> weights, std::span<const float> order) {
  const std::span<const float> by = order.empty() ? weights : order;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t at = bucket_of(by[i]);
    b.mass[at] += static_cast<double>(weights[i]);
    ++b.count[at];
  }
}

Buffer<float> scores(const float* q, std::int64_t q_stride, std::int64_t queries, const float* k, std::int64_t k_stride,
                     std::int64_t keys, std::int64_t depth, float scale, Threads& threads) {
  const auto sized = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  Buffer<float> out(sized(queries * keys));
  kernels::gemm({.form = kernels::Form::kXWt,
                 .rows = sized(queries),
                 .columns = sized(keys),
                 .depth = sized(depth),
                 .a = {q, sized(q_stride)},
                 .b = {k, sized(k_stride)},
                 .c = out.data(),
                 .c_stride = sized(keys)},
                threads);
  kernels::scale(scale, out, out, threads);
  const kernels::Rows rows(out.data(), sized(queries), sized(keys));
  kernels::softmax(rows, rows, nullptr, threads);
  return out;
}

Buffer<float> group_weights(const Buffer<float>& probabilities, std::int64_t keys, Threads& threads) {
  Buffer<float> weights(static_cast<std::size_t>(keys));
  kernels::column_sums({probabilities.data(), probabilities.size() / weights.size(), weights.size()}, weights.data(),
                       kernels::Write::kOverwrite, threads);
  return weights;
}

std::vector<float> tile_sums(const Buffer<float>& weights) {
  std::vector<float> sums((weights.size() + attention::kTileKeys - 1) / attention::kTileKeys);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i / attention::kTileKeys] += weights[i];
  return sums;
}

// The smallest of the `count` largest numbers.
float threshold(std::span<const float> values, std::size_t count) {
  std::vector<float> copy(values.begin(), values.end());
  std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(count - 1), copy.end(), std::greater<>());
  return copy[count - 1];
}

void look_at_queries(const Buffer<float>& p, std::int64_t keys, double mass, HeadProfile& profile) {
  constexpr std::int64_t kQueries = 4;  // of the group, evenly spread: enough for a mean over groups and steps
  const std::int64_t queries = static_cast<std::int64_t>(p.size()) / keys;
  const std::int64_t looked = std::min(kQueries, queries);
  std::vector<char> first_critical;
  for (std::int64_t i = 0; i < looked; ++i) {
    const std::span<const float> row(p.data() + i * queries / looked * keys, static_cast<std::size_t>(keys));
    const double needed = keys_for_mass(row, {}, mass);
    profile.query_sparsity += (1 - needed / static_cast<double>(keys)) / static_cast<double>(looked);
    const float least = threshold(row, static_cast<std::size_t>(std::max(1.0, std::ceil(needed))));
    if (i == 0) {
      for (const float value : row) first_critical.push_back(value >= least);
      continue;
    }
    std::int64_t own = 0, shared = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      own += row[j] >= least;
      shared += row[j] >= least && first_critical[j];
    }
    profile.overlap += static_cast<double>(shared) / static_cast<double>(own) / static_cast<double>(looked - 1);
  }
}

double recall(std::span<const float> truth, std::span<const float> predicted, std::size_t count) {
  const float best = threshold(truth, count), found = threshold(predicted, count);
  std::size_t both = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) both += truth[i] >= best && predicted[i] >= found;
  return std::min(1.0, static_cast<double>(both) / static_cast<double>(count));
}

}  // namespace

double keys_for_mass(std::span<const float> weights, std::span<const float> order, double share) {
  auto buckets = std::make_unique<Buckets>();
  fill(*buckets, weights, order);
  double all = 0;
  for (const double mass : buckets->mass) all += mass;
  double mass = 0, keys = 0;
  for (std::size_t at = buckets->mass.size(); at-- > 0;) {
    if (buckets->count[at] == 0) continue;
    const double here = buckets->mass[at], wanted = share * all - mass;
    if (here >= wanted) return keys + static_cast<double>(buckets->count[at]) * (here > 0 ? wanted / here : 0);
    mass += here;
    keys += static_cast<double>(buckets->count[at]);
  }
  return keys;
}

double mass_of_keys(std::span<const float> weights, std::span<const float> order, double count) {
  auto buckets = std::make_unique<Buckets>();
  fill(*buckets, weights, order);
  double all = 0, mass = 0;
  for (const double each : buckets->mass) all += each;
  for (std::size_t at = buckets->mass.size(); at-- > 0 && count > 0;) {
    const double here = static_cast<double>(buckets->count[at]);
    if (here == 0) continue;
    mass += buckets->mass[at] * std::min(1.0, count / here);
    count -= here;
  }
  return all > 0 ? mass / all : 0;
}

HeadProfile profile_head(const ProfileInput& in, Threads& threads) {
  HeadProfile profile;
  profile.predicted.resize(in.low_q == nullptr ? 0 : in.samples.size());
  const double keys = static_cast<double>(in.keys);
  const std::size_t count = static_cast<std::size_t>(std::clamp(std::ceil(in.size * keys), 1.0, keys));
  const float* low_q = in.low_q;
  for (const auto& [first, end] : in.groups) {
    const std::int64_t queries = end - first;
    const Buffer<float> p = scores(in.q + first * in.q_stride, in.q_stride, queries, in.k, in.k_stride, in.keys,
                                   in.head_dim, in.scale, threads);
    if (kernels::any_not_finite(p, threads)) {
      profile.covered = std::numeric_limits<double>::quiet_NaN();
      return profile;
    }
    look_at_queries(p, in.keys, in.mass, profile);
    const Buffer<float> weights = group_weights(p, in.keys, threads);
    profile.needed += keys_for_mass(weights, {}, in.mass) / keys;
    profile.covered += mass_of_keys(weights, {}, static_cast<double>(count));
    for (std::size_t choice = 0; choice < profile.predicted.size(); ++choice) {
      HeadProfile::Predicted& predicted = profile.predicted[choice];
      predicted.samples = in.samples[choice];
      Buffer<float> guess = group_weights(
          scores(low_q, in.rank, predicted.samples, in.low_k, in.rank, in.keys, in.rank, in.scale, threads), in.keys,
          threads);
      if (kernels::any_not_finite(guess, threads)) std::fill(guess.begin(), guess.end(), 0.0f);
      low_q += predicted.samples * in.rank;
      predicted.needed += keys_for_mass(weights, guess, in.mass) / keys;
      predicted.needed_tiles +=
          attention::kTileKeys * keys_for_mass(tile_sums(weights), tile_sums(guess), in.mass) / keys;
      predicted.covered += mass_of_keys(weights, guess, static_cast<double>(count));
      predicted.recall += recall(weights, guess, count);
    }
  }
  const double n = static_cast<double>(std::max<std::size_t>(in.groups.size(), 1));
  for (double* value : {&profile.query_sparsity, &profile.overlap, &profile.needed, &profile.covered}) *value /= n;
  for (auto& each : profile.predicted) {
    each.needed /= n, each.covered /= n, each.recall /= n;
    each.needed_tiles = std::min(1.0, each.needed_tiles / n);  // the last tile may be short
  }
  return profile;
}

double coverage(const CoverageInput& in, const attention::KeyLists& lists, Threads& threads) {
  const std::int64_t width = in.heads * in.head_dim, keys = lists.keys_tokens;
  const float scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  double mass = 0, count = 0;
  for (std::int64_t b = 0; b < in.batch; ++b) {
    for (std::int64_t h = 0; h < in.heads; ++h) {
      if (lists.dense(b, h)) continue;
      for (const std::int64_t g : in.groups) {
        const std::int64_t first = lists.group_starts[static_cast<std::size_t>(g)];
        const std::int64_t queries = lists.group_starts[static_cast<std::size_t>(g) + 1] - first;
        const Buffer<float> weights =
            group_weights(scores(in.q + (b * lists.queries() + first) * width + h * in.head_dim, width, queries,
                                 in.k + b * keys * width + h * in.head_dim, width, keys, in.head_dim, scale, threads),
                          keys, threads);
        for (const std::int32_t entry : lists.list(b, h, g)) {
          const std::int64_t begin = std::int64_t{entry} * lists.granularity;
          for (std::int64_t j = begin; j < std::min(begin + lists.granularity, keys); ++j) {
            mass += static_cast<double>(weights[static_cast<std::size_t>(j)]) / static_cast<double>(queries);
          }
        }
        ++count;
      }
    }
  }
  return count > 0 ? mass / count : 1;
}

}  // namespace reel::sparsity
