#include "reel/predict/layer_scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/kernels/gather.h"
#include "reel/predict/weights.h"

namespace reel::predict {

namespace {

// Tokens by weight, heaviest first; equal weights in the order of the tokens. Positive floats sort as their bits do.
std::vector<std::int32_t> by_weight(std::span<const float> weights) {
  std::vector<std::uint64_t> both(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    both[i] = (std::uint64_t{~std::bit_cast<std::uint32_t>(weights[i])} << 32) | i;
  }
  std::sort(both.begin(), both.end());
  std::vector<std::int32_t> order(weights.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(both[i] & 0xffffffff);
  return order;
}

std::vector<std::int32_t> drawn_order(std::int64_t tokens, const Random& random) {
  std::vector<std::int32_t> order(sized(tokens));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint64_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order;
}

std::size_t keys_of(double share, std::int64_t tokens) {
  return std::max<std::size_t>(1, sized(std::lround(share * static_cast<double>(tokens))));
}

// Errors of the output over the first keys of `order` (shares kKept), compared with the output over all keys.
std::vector<double> errors_of(const LayerInput& in, std::int64_t head, std::span<const float> weights,
                              std::span<const std::int32_t> order) {
  const std::size_t dim = sized(in.head_dim);
  std::vector<float> sum(dim);
  std::vector<std::vector<float>> partial;
  double mass = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const float weight = weights[sized(order[i])];
    const float* value = in.v + (order[i] * in.heads + head) * in.head_dim;
    for (std::size_t d = 0; d < dim; ++d) sum[d] += weight * value[d];
    mass += static_cast<double>(weight);
    while (partial.size() < LayerScores::kKept.size() &&
           i + 1 == keys_of(LayerScores::kKept[partial.size()], in.tokens)) {
      partial.push_back(sum);
      for (float& x : partial.back()) x = mass > 0 ? static_cast<float>(static_cast<double>(x) / mass) : 0.0f;
    }
  }
  std::vector<double> errors;
  for (const std::vector<float>& output : partial) {
    double difference = 0, norm = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      const double all = static_cast<double>(sum[d]) / mass;
      difference += std::pow(static_cast<double>(output[d]) - all, 2);
      norm += all * all;
    }
    errors.push_back(norm > 0 ? std::sqrt(difference / norm) : 0);
  }
  return errors;
}

std::array<std::int64_t, 3> position(const LayerInput& in, std::int64_t token) {
  const std::int64_t at = in.raster[sized(token)];
  return {at / (in.grid[1] * in.grid[2]), at / in.grid[2] % in.grid[1], at % in.grid[2]};
}

std::size_t distance(const std::array<std::int64_t, 3>& a, const std::array<std::int64_t, 3>& b) {
  double square = 0;
  for (std::size_t i = 0; i < 3; ++i) square += static_cast<double>((a[i] - b[i]) * (a[i] - b[i]));
  return sized(std::ceil(std::sqrt(square)));
}

LayerScores look_at_query(const LayerInput& in, std::int64_t head, std::int64_t query, std::span<const float> weights,
                          std::span<const std::int32_t> drawn) {
  LayerScores seen;
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!std::isfinite(total)) return seen;
  seen.queries = 1;
  const double each = 1.0 / static_cast<double>(in.tokens);
  seen.histogram.assign(LayerScores::kBins, 0);
  for (const float weight : weights) {
    const double bin =
        LayerScores::kBins + LayerScores::kBinsPerDecade * std::log10(std::max(static_cast<double>(weight), 1e-30));
    seen.histogram[sized(
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(bin)), 0, LayerScores::kBins - 1))] += each;
  }
  const std::vector<std::int32_t> order = by_weight(weights);
  std::size_t critical = 0;  // keys that carry the mass
  double mass = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (mass < in.mass * total) critical = i + 1;
    mass += static_cast<double>(weights[sized(order[i])]);
    while (seen.carried.size() < LayerScores::kCurve.size() &&
           i + 1 == keys_of(LayerScores::kCurve[seen.carried.size()], in.tokens)) {
      seen.carried.push_back(mass / total);
    }
  }
  seen.needed = static_cast<double>(critical) * each;
  seen.concentrated = critical <= keys_of(LayerScores::kFew, in.tokens) ? 1 : 0;
  if (in.v != nullptr) {
    seen.error_critical = errors_of(in, head, weights, order);
    seen.error_random = errors_of(in, head, weights, drawn);
  }
  const std::size_t furthest = distance({0, 0, 0}, {in.grid[0] - 1, in.grid[1] - 1, in.grid[2] - 1});
  seen.critical_at.assign(furthest + 1, 0);
  seen.all_at.assign(furthest + 1, 0);
  const auto here = position(in, query);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t away = distance(here, position(in, order[i]));
    seen.all_at[away] += each;
    if (i < critical) seen.critical_at[away] += 1.0 / static_cast<double>(critical);
  }
  return seen;
}

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  sum.resize(std::max(sum.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

}  // namespace

void LayerScores::add(const LayerScores& other) {
  queries += other.queries;
  needed += other.needed;
  concentrated += other.concentrated;
  add_to(carried, other.carried);
  add_to(histogram, other.histogram);
  add_to(error_critical, other.error_critical);
  add_to(error_random, other.error_random);
  add_to(critical_at, other.critical_at);
  add_to(all_at, other.all_at);
}

Buffer<float> score_rows(const LayerInput& in, std::int64_t head, std::span<const std::int32_t> rows,
                         Threads& threads) {
  const std::int64_t width = in.heads * in.head_dim;
  Buffer<float> queries(rows.size() * sized(in.head_dim));
  kernels::gather_rows({in.q + head * in.head_dim, sized(in.tokens), sized(in.head_dim), sized(width)}, rows,
                       {queries.data(), rows.size(), sized(in.head_dim)}, threads);
  return softmax_rows(
      {queries.data(), in.k + head * in.head_dim, in.head_dim, width, static_cast<std::int64_t>(rows.size()), in.tokens,
       in.head_dim, 1.0f / std::sqrt(static_cast<float>(in.head_dim))},
      threads);
}

LayerScores look_at_scores(const LayerInput& in, Threads& threads) {
  REEL_CHECK(in.raster.size() == sized(in.tokens) && in.grid[0] * in.grid[1] * in.grid[2] == in.tokens);
  const Random random(in.seed);
  const std::vector<std::int32_t> drawn = drawn_order(in.tokens, Random(in.seed, 1));
  LayerScores sum;
  const std::int64_t queries = std::min(in.queries, in.tokens);
  std::vector<std::int32_t> rows(sized(queries));
  for (std::int64_t head = 0; head < in.heads; ++head) {
    for (std::int64_t i = 0; i < queries; ++i) {  // one of each run of tokens: none twice
      const std::int64_t first = i * in.tokens / queries, end = (i + 1) * in.tokens / queries;
      rows[sized(i)] =
          static_cast<std::int32_t>(sized(first) + random.below(sized(head * queries + i), sized(end - first)));
    }
    const Buffer<float> weights = score_rows(in, head, rows, threads);
    std::vector<LayerScores> seen(rows.size());
    threads.run(queries, [&](std::int64_t i, int) {
      const std::span<const float> row(weights.data() + sized(i) * sized(in.tokens), sized(in.tokens));
      seen[sized(i)] = look_at_query(in, head, rows[sized(i)], row, drawn);
    });
    for (const LayerScores& each : seen) sum.add(each);
  }
  return sum;
}

}  // namespace reel::predict
