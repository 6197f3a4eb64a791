#include "reel/predict/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/buffer.h"
#include "reel/kernels/elementwise.h"
#include "reel/predict/weights.h"

namespace reel::predict {

namespace {

// Puts what a list holds in any case before everything else. Entries are blocks of `size` keys; returns how many.
std::size_t put_first(std::span<float> order, std::pair<std::int64_t, std::int64_t> own,
                      std::span<const std::int32_t> always, std::int64_t size) {
  constexpr float kFirst = 4096;  // a group has at most 1,024 queries, and each gives a key 1 at most
  const auto put = [&](std::int64_t key) { order[static_cast<std::size_t>(key / size)] = kFirst; };
  for (std::int64_t key = own.first; key < own.second; ++key) put(key);
  for (const std::int32_t key : always) put(key);
  return static_cast<std::size_t>(std::count(order.begin(), order.end(), kFirst));
}

}  // namespace

HeadProfile profile_head(const ProfileInput& in, Threads& threads) {
  HeadProfile profile;
  profile.predicted.resize(in.low_q == nullptr ? 0 : in.samples.size());
  const double keys = static_cast<double>(in.keys);
  const float* low_q = in.low_q;
  for (const std::pair<std::int64_t, std::int64_t>& own : in.groups) {
    const std::int64_t first = own.first, queries = own.second - first;
    const Buffer<float> p = softmax_rows(
        {in.q + first * in.q_stride, in.k, in.q_stride, in.k_stride, queries, in.keys, in.head_dim, in.scale}, threads);
    if (kernels::any_not_finite(p, threads)) {
      profile.covered = std::numeric_limits<double>::quiet_NaN();
      return profile;
    }
    const QueryLook look = look_at_queries(p, in.keys, in.mass);
    profile.query_sparsity += look.sparsity;
    profile.overlap += look.overlap;
    const Buffer<float> weights = group_weights(p, in.keys, threads);
    profile.needed += keys_for_mass(weights, {}, in.mass) / keys;
    std::vector<float> order(weights.begin(), weights.end());
    const std::size_t held = put_first(order, own, in.always, 1);
    const auto count = std::max(held, static_cast<std::size_t>(std::clamp(std::ceil(in.size * keys), 1.0, keys)));
    profile.covered += mass_of_keys(weights, order, static_cast<double>(count));
    for (std::size_t choice = 0; choice < profile.predicted.size(); ++choice) {
      HeadProfile::Predicted& predicted = profile.predicted[choice];
      predicted.samples = in.samples[choice];
      Buffer<float> guess = group_weights(
          softmax_rows({low_q, in.low_k, in.rank, in.rank, predicted.samples, in.keys, in.rank, in.scale}, threads),
          in.keys, threads);
      if (kernels::any_not_finite(guess, threads)) std::fill(guess.begin(), guess.end(), 0.0f);
      low_q += predicted.samples * in.rank;
      predicted.recall += recall(weights, guess, count);
      std::vector<float> tiles = block_sums(guess);
      const auto held_tiles = static_cast<double>(put_first(tiles, own, in.always, lists::kTileKeys));
      put_first(guess, own, in.always, 1);
      predicted.needed += std::max(0.0, keys_for_mass(weights, guess, in.mass) - static_cast<double>(held)) / keys;
      predicted.needed_tiles +=
          lists::kTileKeys * std::max(0.0, keys_for_mass(block_sums(weights), tiles, in.mass) - held_tiles) / keys;
      predicted.covered += mass_of_keys(weights, guess, static_cast<double>(count));
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

std::vector<double> coverage(const CoverageInput& in, const lists::KeyLists& lists, Threads& threads) {
  const std::int64_t width = in.heads * in.head_dim, keys = lists.keys_tokens;
  const float scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  std::vector<double> heads;
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < in.heads; ++i) {
    for (std::int64_t b = 0; b < in.batch; ++b) {
      heads.push_back(1);
      if (lists.dense(b, in.first_head + i)) continue;
      double mass = 0;
      for (const std::int64_t g : in.groups) {
        const std::int64_t first = lists.group_starts[static_cast<std::size_t>(g)];
        const std::int64_t queries = lists.group_starts[static_cast<std::size_t>(g) + 1] - first;
        const Buffer<float> weights = group_weights(
            softmax_rows({in.q + (b * lists.queries() + first) * width + i * in.head_dim,
                          in.k + b * keys * width + i * in.head_dim, width, width, queries, keys, in.head_dim, scale},
                         threads),
            keys, threads);
        lists.tokens(b, in.first_head + i, g, tokens);
        for (const std::int32_t key : tokens) {
          mass += static_cast<double>(weights[static_cast<std::size_t>(key)]) / static_cast<double>(queries);
        }
      }
      heads.back() = mass / static_cast<double>(in.groups.size());
    }
  }
  return heads;
}

}  // namespace reel::predict
