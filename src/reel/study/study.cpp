#include "reel/study/study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gather.h"
#include "reel/kernels/gemm.h"
#include "reel/predict/judge.h"
#include "reel/predict/qk_predictor.h"

namespace reel::study {

namespace {

constexpr std::array<std::int64_t, 4> kRanks = {8, 16, 32, 64};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double normal_quantile(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// The standard deviation of a query's scores, from its softmax row: the logarithm is the score, up to a constant.
double spread_of(std::span<const float> row) {
  double sum = 0, squares = 0;
  for (const float weight : row) {
    const double score = std::log(std::max(static_cast<double>(weight), 1e-38));
    sum += score;
    squares += score * score;
  }
  const double n = static_cast<double>(row.size());
  return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
}

// One group of queries, its true weights, and what a predictor's order of keys is worth.
class Group {
 public:
  Group(const StudyInput& in, std::int64_t group, Threads& threads)
      : in_(in),
        threads_(threads),
        first_(in.order->group_starts[sized(group)]),
        queries_(in.order->group_starts[sized(group) + 1] - first_),
        keys_(in.order->tokens()),
        judge_({in.q + first_ * in.head_dim, in.k, in.head_dim, in.head_dim, queries_, keys_, in.head_dim, scale(in)},
               {}, threads) {
    if (!judge_.finite()) {
      throw Error("scores of q and k overflow f32", "save q and k after their norm, and apply the softmax scale");
    }
    if (in.v != nullptr) output_ = attend(rows(), in.v, keys_);
  }

  std::int64_t first() const { return first_; }
  std::int64_t queries() const { return queries_; }
  const Buffer<float>& rows() const { return judge_.rows(); }
  const Buffer<float>& weights() const { return judge_.weights(); }
  std::span<const float> row(std::int64_t i) const { return {rows().data() + i * keys_, sized(keys_)}; }

  // Weights by the numbers of a low-rank predictor; those beyond `depth` of each row are left out.
  Buffer<float> guessed(const float* low_q, const float* low_k, std::int64_t stride, std::int64_t depth) const {
    return predict::group_weights(
        predict::softmax_rows({low_q + first_ * stride, low_k, stride, stride, queries_, keys_, depth, scale(in_)},
                              threads_),
        keys_, threads_);
  }

  // Adds 1 / `of` of what this order of the keys is worth.
  void judge(PredictorStudy& into, std::span<const float> guess, double of) const {
    into.needed += judge_.needed(guess, in_.mass) / of;
    into.covered += judge_.covered(guess, in_.size) / of;
    into.recall += judge_.recall(guess, in_.size) / of;
    into.carried.resize(HeadStudy::kShares.size());
    for (std::size_t i = 0; i < into.carried.size(); ++i) {
      into.carried[i] += judge_.covered(guess, HeadStudy::kShares[i]) / of;
    }
    into.error += (in_.v != nullptr ? error(predict::largest(guess, predict::keys_of_share(in_.size, keys_)))
                                    : std::numeric_limits<double>::quiet_NaN()) /
                  of;
  }

 private:
  static float scale(const StudyInput& in) { return 1.0f / std::sqrt(static_cast<float>(in.head_dim)); }

  // [queries][head_dim] of rows [queries][keys], which need not sum to one.
  Buffer<float> attend(const Buffer<float>& rows, const float* v, std::int64_t keys) const {
    Buffer<float> out(sized(queries_ * in_.head_dim));
    kernels::gemm({.form = kernels::Form::kDyW,
                   .rows = sized(queries_),
                   .columns = sized(in_.head_dim),
                   .depth = sized(keys),
                   .a = {rows.data(), sized(keys)},
                   .b = {v, sized(in_.head_dim)},
                   .c = out.data(),
                   .c_stride = sized(in_.head_dim)},
                  threads_);
    for (std::int64_t i = 0; i < queries_; ++i) {
      const float* row = rows.data() + i * keys;
      const double mass = std::accumulate(row, row + keys, 0.0);
      for (std::int64_t d = 0; d < in_.head_dim; ++d) {
        out[sized(i * in_.head_dim + d)] *= static_cast<float>(mass > 0 ? 1 / mass : 0);
      }
    }
    return out;
  }

  double error(const std::vector<std::int32_t>& list) const {
    const std::size_t dim = sized(in_.head_dim), count = list.size();
    Buffer<float> rows(sized(queries_) * count), values(count * dim);
    for (std::size_t i = 0; i < sized(queries_); ++i) {
      const std::span<const float> all = row(static_cast<std::int64_t>(i));
      for (std::size_t j = 0; j < count; ++j) rows[i * count + j] = all[sized(list[j])];
    }
    kernels::gather_rows({in_.v, sized(keys_), dim}, list, {values.data(), count, dim}, threads_);
    const Buffer<float> some = attend(rows, values.data(), static_cast<std::int64_t>(count));
    double sum = 0;
    for (std::size_t i = 0; i < sized(queries_); ++i) {
      double difference = 0, norm = 0;
      for (std::size_t d = i * dim; d < (i + 1) * dim; ++d) {
        difference += std::pow(static_cast<double>(some[d]) - static_cast<double>(output_[d]), 2);
        norm += std::pow(static_cast<double>(output_[d]), 2);
      }
      sum += norm > 0 ? std::sqrt(difference / norm) : 0;
    }
    return sum / static_cast<double>(queries_);
  }

  const StudyInput& in_;
  Threads& threads_;
  std::int64_t first_, queries_, keys_;
  predict::Judge judge_;
  Buffer<float> output_;
};

std::vector<float> nearness(const lists::TokenOrder& order, std::int64_t g) {
  std::vector<float> near;
  for (const double square : lists::squared_distances(order, g)) near.push_back(static_cast<float>(1 / (1 + square)));
  return near;
}

// Low-rank numbers of all tokens by the closed form, the leading directions first.
LowPair closed_numbers(const StudyInput& in, Threads& threads) {
  const std::int64_t tokens = in.order->tokens(), rank = std::min(in.head_dim, kRanks.back());
  predict::QkPredictor closed({1, 1, in.head_dim}, rank);
  const predict::Seen seen{0, 1, tokens, in.q, in.k, nullptr};
  closed.learn(seen, true, threads);
  LowPair low{rank, Buffer<float>(sized(tokens * rank)), Buffer<float>(sized(tokens * rank))};
  if (!closed.knows(0)) {
    throw Error("moments of q and k overflow f32", "save q and k after their norm, and apply the softmax scale");
  }
  std::vector<std::int32_t> all(sized(tokens));
  std::iota(all.begin(), all.end(), 0);
  const std::int64_t head = 0;
  closed.predict(seen, std::span(&head, 1), all, rank, low.q.data(), low.k.data(), threads);
  return low;
}

}  // namespace

double gaussian_keys(double mass, double spread) {
  if (mass <= 0 || mass >= 1) return mass <= 0 ? 0 : 1;
  return normal_cdf(normal_quantile(mass) - spread);
}

const PredictorStudy& HeadStudy::predictor(const std::string& name) const {
  const auto found =
      std::find_if(predictors.begin(), predictors.end(), [&](const PredictorStudy& each) { return each.name == name; });
  REEL_CHECK(found != predictors.end());
  return *found;
}

HeadStudy study_head(const StudyInput& in, Threads& threads) {
  const lists::TokenOrder& order = *in.order;
  HeadStudy study;
  study.queries = predict::look_at_scores({.tokens = order.tokens(),
                                           .heads = 1,
                                           .head_dim = in.head_dim,
                                           .q = in.q,
                                           .k = in.k,
                                           .v = in.v,
                                           .grid = order.grid,
                                           .raster = order.raster,
                                           .queries = in.queries,
                                           .mass = in.mass,
                                           .seed = in.seed},
                                          threads);
  const LowPair low = closed_numbers(in, threads);
  for (const int keys : HeadStudy::kBlocks) study.blocks.push_back({keys, 0, 0});
  const std::vector<std::int64_t> groups = lists::spread_groups(order, in.groups, in.seed);
  const std::vector<std::int32_t> middles = lists::sample_queries(order, 1);
  const double of = static_cast<double>(groups.size()), tokens = static_cast<double>(order.tokens());
  for (const std::int64_t g : groups) {
    const Group group(in, g, threads);
    study.overlap += predict::look_at_queries(group.rows(), order.tokens(), in.mass).overlap / of;
    const std::int64_t looked = std::min<std::int64_t>(4, group.queries());
    for (std::int64_t i = 0; i < looked; ++i) {
      const double spread = spread_of(group.row(i * group.queries() / looked));
      study.spread += spread / of / static_cast<double>(looked);
      const double keys = std::max(gaussian_keys(in.mass, spread), 1 / tokens);  // at least one
      study.gaussian += keys / of / static_cast<double>(looked);
    }
    std::size_t next = 0;
    const auto judge = [&](const std::string& name, std::span<const float> guess) {
      if (next == study.predictors.size()) study.predictors.push_back({.name = name});
      group.judge(study.predictors[next++], guess, of);
    };
    judge("true", group.weights());
    judge("middle", group.row(middles[sized(g)] - group.first()));
    for (const std::int64_t rank : kRanks) {
      if (rank == kRanks.front() || rank < in.head_dim) {
        const std::int64_t depth = std::min(rank, in.head_dim);
        judge(fmt::format("rank {}", depth), group.guessed(low.q.data(), low.k.data(), low.rank, depth));
      }
    }
    if (in.hidden != nullptr) {
      judge("hidden", group.guessed(in.hidden->q.data(), in.hidden->k.data(), in.hidden->rank, in.hidden->rank));
    }
    judge("nearest", nearness(order, g));
    std::vector<float> random(sized(order.tokens()));
    Random(in.seed, 3 + static_cast<std::uint64_t>(g)).fill_uniform(random);
    judge("random", random);
    for (BlockStudy& block : study.blocks) {
      const std::vector<float> sums = predict::block_sums(group.weights(), sized(block.keys));
      block.covered += predict::mass_of_keys(sums, {}, in.size * tokens / block.keys) / of;
      block.needed += std::min(1.0, predict::keys_for_mass(sums, {}, in.mass) * block.keys / tokens) / of;
    }
  }
  return study;
}

}  // namespace reel::study
