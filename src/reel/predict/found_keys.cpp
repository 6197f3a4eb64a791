#include "reel/predict/found_keys.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "reel/base/sized.h"
#include "reel/lists/controls.h"
#include "reel/predict/judge.h"

namespace reel::predict {

namespace {

double mass_of(std::span<const float> weights, const std::vector<std::int32_t>& keys) {
  double mass = 0;
  for (const std::int32_t key : keys) mass += static_cast<double>(weights[sized(key)]);
  return mass;
}

// The keys found for one query, from true and predicted scores.
FoundKeys found_by_query(std::span<const float> scores, std::span<const float> weights, std::span<const float> guess,
                         std::size_t count) {
  const std::vector<std::int32_t> best = largest(scores, count), chosen = largest(guess, count);
  std::vector<std::int32_t> both;
  std::set_intersection(best.begin(), best.end(), chosen.begin(), chosen.end(), std::back_inserter(both));
  FoundKeys found;
  found.recall = static_cast<double>(both.size()) / static_cast<double>(count);
  found.query_mass = mass_of(weights, chosen) / mass_of(weights, best);
  return found;
}

}  // namespace

void FoundKeys::add(const FoundKeys& other, double times) {
  recall += times * other.recall;
  query_mass += times * other.query_mass;
  group_mass += times * other.group_mass;
  list_mass += times * other.list_mass;
}

FoundKeys found_keys(const ProfileInput& in, Threads& threads) {
  const std::size_t count = keys_of_share(in.size, in.keys);
  FoundKeys mean;
  const float* low_q = in.low_q;
  const double groups = static_cast<double>(in.groups.size());
  for (const auto& [first, end] : in.groups) {
    const std::int64_t queries = end - first;
    const ScoreInput truth{
        in.q + first * in.q_stride, in.k, in.q_stride, in.k_stride, queries, in.keys, in.head_dim, in.scale};
    const ScoreInput guess{low_q, in.low_k, in.rank, in.rank, queries, in.keys, in.rank, in.scale};
    low_q += queries * in.rank;
    const Judge judge(truth, lists::held_tokens(first, end, in.always), threads);
    // Scores order keys whose weights are too small for f32, too.
    const Buffer<float> scores = scores_of(truth, threads), guessed = scores_of(guess, threads);
    const auto row = [&](const Buffer<float>& all, std::int64_t i) {
      return std::span<const float>(all).subspan(sized(i * in.keys), sized(in.keys));
    };
    std::vector<FoundKeys> each(sized(queries));
    threads.run(queries, [&](std::int64_t i, int) {
      each[sized(i)] = found_by_query(row(scores, i), row(judge.rows(), i), row(guessed, i), count);
    });
    for (const FoundKeys& one : each) mean.add(one, 1 / (groups * static_cast<double>(queries)));

    const Buffer<float> order = group_weights(softmax_rows(guess, threads), in.keys, threads);
    const auto of = static_cast<double>(count);
    const double best = mass_of_keys(judge.weights(), {}, of);
    mean.group_mass += mass_of_keys(judge.weights(), order, of) / best / groups;
    mean.list_mass += judge.covered(order, in.size) / best / groups;
  }
  return mean;
}

}  // namespace reel::predict
