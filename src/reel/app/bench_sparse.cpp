// reel bench sparse: attention with everything that sparsity costs (projection, selection, own tile), against dense.
#include <fmt/format.h>

#include <algorithm>

#include "reel/app/bench.h"
#include "reel/attention/random_problem.h"
#include "reel/base/error.h"
#include "reel/base/timer.h"
#include "reel/lists/controls.h"
#include "reel/predict/choose.h"
#include "reel/predict/qk_predictor.h"

namespace reel::app {

namespace {

struct Problem : attention::RandomProblem {
  lists::TokenOrder order;

  // Tokens as a clip of 16 x 16 places where that fits, so that groups are 4 x 4 x 4 tiles.
  Problem(std::int64_t heads, std::int64_t tokens, std::int64_t head_dim)
      : RandomProblem(heads, tokens, head_dim),
        order(tokens % 1024 == 0 ? lists::tile_order({tokens / 256, 16, 16}, {4, 4, 4})
                                 : lists::tile_order({tokens, 1, 1}, {64, 1, 1})) {}
  predict::Seen seen() const { return {0, 1, shape.queries, q.data(), k.data(), nullptr}; }
  double dense_flops() const {
    return 4.0 * static_cast<double>(shape.heads * shape.head_dim) * static_cast<double>(shape.queries) *
           static_cast<double>(shape.keys);
  }
};

// Moments of the random q and k give a projection as good as any: what is timed does not depend on it.
predict::QkPredictor predictor_of(const Problem& p, std::int64_t rank, Threads& threads) {
  predict::QkPredictor predictor({1, p.shape.heads, p.shape.head_dim}, rank);
  predictor.learn(p.seen(), true, threads);
  return predictor;
}

struct Times {
  double choose = 0, forward = 0, backward = 0;
  double all() const { return choose + forward + backward; }
  // Each part at its best; a time without parts is none yet.
  void improve(const Times& other) {
    if (all() == 0) *this = other;
    choose = std::min(choose, other.choose);
    forward = std::min(forward, other.forward);
    backward = std::min(backward, other.backward);
  }
};

// Attention of this size takes seconds to minutes: dense and sparse take kRounds turns, each of kTurnSeconds at least.
constexpr int kRounds = 2;
constexpr double kTurnSeconds = 2;

Times dense(Problem& p, Threads& threads) {
  Times t;
  t.forward = best_seconds([&] { attention::forward(p.input(), {}, p.result(), threads); }, 1, kTurnSeconds);
  t.backward = best_seconds([&] { attention::backward(p.input(), {}, p.gradients(), threads); }, 1, kTurnSeconds);
  return t;
}

Times sparse(Problem& p, double share, std::int64_t rank, std::int64_t samples, double turn_seconds, Threads& threads,
             double* kept) {
  const predict::QkPredictor predictor = predictor_of(p, rank, threads);
  const auto sampled = lists::sample_queries(p.order, samples);
  predict::ChooseInput in{.order = &p.order, .head_dim = p.shape.head_dim, .samples = samples};
  for (std::int64_t h = 0; h < p.shape.heads; ++h) in.members.push_back({h, lists::budget_of(share, p.shape.keys)});
  lists::KeyLists lists;
  Times t;
  t.choose =
      best_seconds([&] { lists = predict::choose_keys(predictor, p.seen(), sampled, in, threads); }, 1, turn_seconds);
  *kept = lists.density();
  const lists::ListsView keys = lists;
  t.forward = best_seconds([&] { attention::forward(p.input(), keys, p.result(), threads); }, 1, turn_seconds);
  t.backward = best_seconds([&] { attention::backward(p.input(), keys, p.gradients(), threads); }, 1, turn_seconds);
  return t;
}

// Lengths at which dense attention would take hours: one pass, and the memory it takes.
void long_clip(Problem& p, double share, Bench& bench, Threads& threads) {
  constexpr std::int64_t kRank = 16, kSamples = 16;
  double kept = 0;
  const Times t = sparse(p, share, kRank, kSamples, 0, threads, &kept);
  bench.add({.name = fmt::format("sparse forward+backward rank {} queries {}", kRank, kSamples),
             .seconds = t.all(),
             .flops = 3.5 * p.dense_flops() * kept,
             .more = {{"kept_share", kept},
                      {"choose_seconds", t.choose},
                      {"forward_seconds", t.forward},
                      {"backward_seconds", t.backward},
                      {"peak_resident_bytes", peak_resident()}}});
  fmt::print("    choice {}, forward {}, backward {}; {:.1f} GB at most\n", format_seconds(t.choose),
             format_seconds(t.forward), format_seconds(t.backward), peak_resident() / 1e9);
}

}  // namespace

void bench_sparse(const BenchOptions& options) {
  const std::int64_t tokens = options.tokens > 0 ? options.tokens : 32768,
                     heads = options.heads > 0 ? options.heads : 12;
  const std::int64_t head_dim = options.head_dim > 0 ? options.head_dim : 64;
  if (options.sparsity >= 1) throw Error("--sparsity must be below 1", "0.9 keeps a tenth of the keys");
  Threads threads(options.threads);
  Bench bench(fmt::format("sparse attention {}x{}x{}, choice of keys included, f32", heads, tokens, head_dim), threads);
  Problem p(heads, tokens, head_dim);
  if (options.no_dense) {
    if (options.sparsity < 0) throw Error("--no-dense needs --sparsity", "as in --no-dense --sparsity 0.98");
    long_clip(p, 1 - options.sparsity, bench, threads);
    return bench.finish(options.json);
  }
  const bool table = options.sparsity < 0;
  struct Kind {
    double share;
    std::int64_t rank, samples;
    double kept = 0;
    Times times = {};
  };
  std::vector<Kind> kinds = {{1 - options.sparsity, 16, 16}, {1 - options.sparsity, 32, 64}};
  if (table) {
    kinds.clear();
    for (const double share : {1.0, 0.75, 0.5, 0.25, 0.15, 0.1, 0.05, 0.02}) kinds.push_back({share, 16, 16});
  }
  Times whole;
  for (int round = 0; round < kRounds; ++round) {
    whole.improve(dense(p, threads));
    for (Kind& each : kinds) {
      each.times.improve(sparse(p, each.share, each.rank, each.samples, kTurnSeconds, threads, &each.kept));
    }
  }
  bench.add({.name = "dense forward", .seconds = whole.forward, .flops = p.dense_flops()});
  bench.add({.name = "dense backward", .seconds = whole.backward, .flops = 2.5 * p.dense_flops()});
  double break_even = 0, last_share = 1, last_time = 0;
  for (const auto& [share, rank, samples, kept, t] : kinds) {
    const std::string size = table ? fmt::format(" {:.0f} % of keys", 100 * share) : "";
    bench.add({.name = fmt::format("sparse forward+backward rank {} queries {}{}", rank, samples, size),
               .seconds = t.all(),
               .flops = 3.5 * p.dense_flops() * kept,
               .speedup = whole.all() / t.all(),
               .against = "dense",
               .more = {{"kept_share", kept},
                        {"choose_seconds", t.choose},
                        {"choose_share_of_dense_forward", t.choose / whole.forward},
                        {"forward_seconds", t.forward},
                        {"backward_seconds", t.backward}}});
    fmt::print("    choice {:.1f} % of a dense forward, forward {:.1f} x, backward {:.1f} x\n",
               100 * t.choose / whole.forward, whole.forward / (t.choose + t.forward), whole.backward / t.backward);
    if (table && break_even == 0 && t.all() < whole.all()) {
      // On the line between the last two points.
      const double before = last_time > 0 ? last_time - whole.all() : 0, after = whole.all() - t.all();
      break_even = last_time > 0 ? share + (last_share - share) * after / (before + after) : share;
    }
    last_share = share;
    last_time = t.all();
  }
  if (table) fmt::print("\nbreak-even: sparse pays below {:.0f} % of the keys\n", 100 * break_even);
  bench.finish(options.json);
}

}  // namespace reel::app
