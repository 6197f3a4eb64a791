#include "reel/predict/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gemm.h"
#include "reel/kernels/softmax.h"

namespace reel::predict {

namespace {

// Positive floats in order of size by their leading 16 bits: 128 buckets for each power of two.
struct Buckets {
  std::array<double, 1 << 15> mass{};
  std::array<std::int64_t, 1 << 15> count{};
  double all = 0;        // mass
  std::size_t used = 0;  // buckets from here on are empty: most are, and looking at them took longer than filling them
};

std::size_t bucket_of(float value) { return value > 0 ? std::bit_cast<std::uint32_t>(value) >> 16 & 0x7fff : 0; }

void fill(Buckets& b, std::span<const float> weights, std::span<const float> order) {
  const std::span<const float> by = order.empty() ? weights : order;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t at = bucket_of(by[i]);
    b.mass[at] += static_cast<double>(weights[i]);
    ++b.count[at];
    b.all += static_cast<double>(weights[i]);
    b.used = std::max(b.used, at + 1);
  }
}

// The smallest of the `count` largest numbers.
float threshold(std::span<const float> values, std::size_t count) {
  std::vector<float> copy(values.begin(), values.end());
  std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(count - 1), copy.end(), std::greater<>());
  return copy[count - 1];
}

}  // namespace

Buffer<float> scores_of(const ScoreInput& in, Threads& threads) {
  Buffer<float> out(sized(in.queries * in.keys));
  kernels::gemm({.form = kernels::Form::kXWt,
                 .rows = sized(in.queries),
                 .columns = sized(in.keys),
                 .depth = sized(in.depth),
                 .a = {in.q, sized(in.q_stride)},
                 .b = {in.k, sized(in.k_stride)},
                 .c = out.data(),
                 .c_stride = sized(in.keys)},
                threads);
  kernels::scale(in.scale, out, out, threads);
  return out;
}

Buffer<float> softmax_rows(const ScoreInput& in, Threads& threads) {
  Buffer<float> out = scores_of(in, threads);
  const kernels::Rows rows(out.data(), sized(in.queries), sized(in.keys));
  kernels::softmax(rows, rows, nullptr, threads);
  return out;
}

Buffer<float> group_weights(const Buffer<float>& rows, std::int64_t keys, Threads& threads) {
  Buffer<float> weights(sized(keys));
  kernels::column_sums({rows.data(), rows.size() / weights.size(), weights.size()}, weights.data(),
                       kernels::Write::kOverwrite, threads);
  return weights;
}

std::vector<float> block_sums(std::span<const float> weights, std::size_t size) {
  std::vector<float> sums((weights.size() + size - 1) / size);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i / size] += weights[i];
  return sums;
}

double keys_for_mass(std::span<const float> weights, std::span<const float> order, double share) {
  auto buckets = std::make_unique<Buckets>();
  fill(*buckets, weights, order);
  double mass = 0, keys = 0;
  for (std::size_t at = buckets->used; at-- > 0;) {
    if (buckets->count[at] == 0) continue;
    const double here = buckets->mass[at], wanted = share * buckets->all - mass;
    if (here >= wanted) return keys + static_cast<double>(buckets->count[at]) * (here > 0 ? wanted / here : 0);
    mass += here;
    keys += static_cast<double>(buckets->count[at]);
  }
  return keys;
}

double mass_of_keys(std::span<const float> weights, std::span<const float> order, double count) {
  auto buckets = std::make_unique<Buckets>();
  fill(*buckets, weights, order);
  double mass = 0;
  for (std::size_t at = buckets->used; at-- > 0 && count > 0;) {
    const double here = static_cast<double>(buckets->count[at]);
    if (here == 0) continue;
    mass += buckets->mass[at] * std::min(1.0, count / here);
    count -= here;
  }
  return buckets->all > 0 ? mass / buckets->all : 0;
}

double recall(std::span<const float> truth, std::span<const float> predicted, std::size_t count) {
  const float best = threshold(truth, count), found = threshold(predicted, count);
  std::size_t both = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) both += truth[i] >= best && predicted[i] >= found;
  return std::min(1.0, static_cast<double>(both) / static_cast<double>(count));
}

std::vector<std::int32_t> largest(std::span<const float> values, std::size_t count) {
  REEL_CHECK(count <= values.size());
  std::vector<std::int32_t> index(values.size());
  std::iota(index.begin(), index.end(), 0);
  const auto middle = index.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(index.begin(), middle, index.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = values[sized(a)], y = values[sized(b)];
    return x != y ? x > y : a < b;
  });
  index.resize(count);
  std::sort(index.begin(), index.end());
  return index;
}

QueryLook look_at_queries(const Buffer<float>& rows, std::int64_t keys, double mass) {
  constexpr std::int64_t kQueries = 4;  // enough for a mean over groups and steps
  const std::int64_t queries = static_cast<std::int64_t>(rows.size()) / keys;
  const std::int64_t looked = std::min(kQueries, queries);
  QueryLook look;
  if (looked == 1) look.overlap = 1;
  std::vector<char> first_critical;
  for (std::int64_t i = 0; i < looked; ++i) {
    const std::span<const float> row(rows.data() + i * queries / looked * keys, sized(keys));
    const double needed = keys_for_mass(row, {}, mass);
    look.sparsity += (1 - needed / static_cast<double>(keys)) / static_cast<double>(looked);
    const float least = threshold(row, sized(std::max(1.0, std::ceil(needed))));
    if (i == 0) {
      for (const float value : row) first_critical.push_back(value >= least);
      continue;
    }
    std::int64_t own = 0, shared = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      own += row[j] >= least;
      shared += row[j] >= least && first_critical[j];
    }
    look.overlap += static_cast<double>(shared) / static_cast<double>(own) / static_cast<double>(looked - 1);
  }
  return look;
}

}  // namespace reel::predict
