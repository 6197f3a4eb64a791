#include "reel/predict/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/lists/controls.h"
#include "reel/predict/judge.h"

namespace reel::predict {

HeadProfile profile_head(const ProfileInput& in, Threads& threads) {
  HeadProfile profile;
  profile.predicted.resize(in.low_q == nullptr ? 0 : in.samples.size());
  const float* low_q = in.low_q;
  for (const std::pair<std::int64_t, std::int64_t>& own : in.groups) {
    const std::int64_t first = own.first, queries = own.second - first;
    const Judge judge(
        {in.q + first * in.q_stride, in.k, in.q_stride, in.k_stride, queries, in.keys, in.head_dim, in.scale},
        lists::held_tokens(own.first, own.second, in.always), threads);
    if (!judge.finite()) {
      profile.covered = std::numeric_limits<double>::quiet_NaN();
      return profile;
    }
    const QueryLook look = look_at_queries(judge.rows(), in.keys, in.mass);
    profile.query_sparsity += look.sparsity;
    profile.overlap += look.overlap;
    profile.needed += keys_for_mass(judge.weights(), {}, in.mass) / static_cast<double>(in.keys);
    profile.covered += judge.covered(judge.weights(), in.size);
    for (std::size_t choice = 0; choice < profile.predicted.size(); ++choice) {
      HeadProfile::Predicted& predicted = profile.predicted[choice];
      predicted.samples = in.samples[choice];
      Buffer<float> guess = group_weights(
          softmax_rows({low_q, in.low_k, in.rank, in.rank, predicted.samples, in.keys, in.rank, in.scale}, threads),
          in.keys, threads);
      if (kernels::any_not_finite(guess, threads)) std::fill(guess.begin(), guess.end(), 0.0f);
      low_q += predicted.samples * in.rank;
      predicted.recall += judge.recall(guess, in.size);
      predicted.needed += judge.needed(guess, in.mass);
      predicted.needed_tiles += judge.needed_tiles(guess, in.mass);
      predicted.covered += judge.covered(guess, in.size);
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
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        const std::int64_t first = in.first_tokens[sized(g)];
        const std::int64_t queries = lists.group_starts[sized(g) + 1] - lists.group_starts[sized(g)];
        const Buffer<float> weights = group_weights(
            softmax_rows({in.q + (b * keys + first) * width + i * in.head_dim,
                          in.k + b * keys * width + i * in.head_dim, width, width, queries, keys, in.head_dim, scale},
                         threads),
            keys, threads);
        lists.tokens(b, in.first_head + i, g, tokens);
        for (const std::int32_t key : tokens) {
          mass += static_cast<double>(weights[sized(key)]) / static_cast<double>(queries);
        }
      }
      heads.back() = mass / static_cast<double>(lists.groups());
    }
  }
  return heads;
}

}  // namespace reel::predict
