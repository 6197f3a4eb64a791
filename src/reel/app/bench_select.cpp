#include <cmath>

#include "reel/app/bench.h"
#include "reel/attention/attention.h"
#include "reel/attention/select.h"
#include "reel/base/buffer.h"
#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"

namespace reel::app {

namespace {

Buffer<float> normal(std::int64_t floats, std::uint64_t stream) {
  Buffer<float> buffer(sized(floats));
  Random(1, stream).fill_normal(buffer);
  return buffer;
}

struct SelectShape {
  std::int64_t heads, tokens, head_dim, group, rank, samples;
  double share;
};

// Selection beside the dense forward attention that it is meant to save, in turn.
void bench_shape(const SelectShape& s, int rounds, Threads& threads, Bench& bench) {
  const std::int64_t floats = s.heads * s.tokens * s.head_dim;
  check_room(4.0 * static_cast<double>(floats));
  const Buffer<float> q = normal(floats, 1), k = normal(floats, 2), v = normal(floats, 3);
  Buffer<float> out(q.size()), lse(sized(s.heads * s.tokens));
  const auto view = [&](const Buffer<float>& b) {
    return attention::token_major(b.data(), s.tokens, s.heads, s.head_dim);
  };
  const attention::Input dense{{1, s.heads, s.tokens, s.tokens, s.head_dim},
                               view(q),
                               view(k),
                               view(v),
                               1 / std::sqrt(static_cast<float>(s.head_dim))};
  const attention::Partial result{attention::token_major(out.data(), s.tokens, s.heads, s.head_dim), lse.data()};

  const std::int64_t groups = (s.tokens + s.group - 1) / s.group;
  const Buffer<float> low_q = normal(s.heads * groups * s.samples * s.rank, 4),
                      low_k = normal(s.heads * s.tokens * s.rank, 5);
  std::vector<attention::SelectInput> inputs;
  for (const std::int64_t samples : {s.samples, std::int64_t{1}}) {
    for (const int granularity : {1, lists::kTileKeys}) {
      attention::SelectInput in;
      in.heads = s.heads, in.keys = s.tokens, in.rank = s.rank, in.samples = samples, in.granularity = granularity;
      in.group_starts = lists::uniform_groups(s.tokens, s.group);
      in.q = attention::token_major(low_q.data(), groups * samples, s.heads, s.rank);
      in.k = attention::token_major(low_k.data(), s.tokens, s.heads, s.rank);
      in.scale = 1 / std::sqrt(static_cast<float>(s.rank));
      const std::int64_t entries = (s.tokens + granularity - 1) / granularity;
      in.keep = {std::max<std::int64_t>(1, std::llround(s.share * static_cast<double>(entries)))};
      inputs.push_back(std::move(in));
    }
    if (s.samples == 1) break;
  }
  std::vector<std::function<void()>> works = {[&] { attention::forward(dense, {}, result, threads); }};
  for (const attention::SelectInput& in : inputs) works.emplace_back([&] { attention::select(in, threads); });
  const std::vector<double> seconds = best_in_turn(works, rounds);

  const double pairs = static_cast<double>(s.heads) * static_cast<double>(s.tokens) * static_cast<double>(s.tokens);
  bench.add({.name = fmt::format("dense forward {}x{}x{}", s.heads, s.tokens, s.head_dim),
             .seconds = seconds[0],
             .flops = 4 * pairs * static_cast<double>(s.head_dim)});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const attention::SelectInput& in = inputs[i];
    const double share = seconds[i + 1] / seconds[0];
    bench.add({.name = fmt::format("select {}x{} {} sample{}, {}", s.heads, s.tokens, in.samples,
                                   in.samples == 1 ? "" : "s", in.granularity == 1 ? "tokens" : "tiles of 64"),
               .seconds = seconds[i + 1],
               .speedup = 1 / share,
               .against = fmt::format("dense forward ({:.1f} % of its time)", 100 * share),
               .more = {{"share_of_dense_forward", share}}});
  }
}

}  // namespace

void bench_select(const BenchOptions& o) {
  const double share = o.sparsity < 0 ? 0.1 : 1 - o.sparsity;
  const std::int64_t heads = o.heads > 0 ? o.heads : 4, d = o.head_dim != 0 ? o.head_dim : 64,
                     group = o.group != 0 ? o.group : 64;
  std::vector<std::int64_t> tokens = {8192, 32768};
  if (o.tokens > 0) tokens = {o.tokens};
  Threads threads(o.threads);
  Bench bench(fmt::format("selection of {:.0f} % of the keys, groups of {}, rank {}", 100 * share, group, o.rank),
              threads);
  for (const std::int64_t n : tokens)
    bench_shape({heads, n, d, group, o.rank, o.samples, share}, o.rounds, threads, bench);
  bench.finish(o.json);
}

}  // namespace reel::app
