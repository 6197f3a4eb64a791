#include <cmath>

#include "app/bench.h"
#include "attention/attention.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/random.h"
#include "base/timer.h"

namespace reel::app {

namespace {

using attention::KeyLists;

// Tensors as PyTorch's attention takes them, [heads][tokens][head_dim], or as linear layers leave them,
// [tokens][heads][head_dim].
struct Tensors {
  attention::Shape shape;
  bool tokens_first;
  Buffer<float> q, k, v, dout, out, dq, dk, dv, lse;
  explicit Tensors(const attention::Shape& s, bool token_major = false) : shape(s), tokens_first(token_major) {
    const auto floats = static_cast<std::size_t>(s.batch * s.heads * s.head_dim);
    std::uint64_t stream = 0;
    for (auto* each : {&q, &dout, &out, &dq}) *each = normal(floats * static_cast<std::size_t>(s.queries), stream++);
    for (auto* each : {&k, &v, &dk, &dv}) *each = normal(floats * static_cast<std::size_t>(s.keys), stream++);
    lse = Buffer<float>(static_cast<std::size_t>(s.batch * s.heads * s.queries));
  }
  static Buffer<float> normal(std::size_t n, std::uint64_t stream) {
    Buffer<float> buffer(n);
    Random(1, stream).fill_normal(buffer);
    return buffer;
  }
  attention::MutableView view(Buffer<float>& b, std::int64_t tokens) {
    return tokens_first ? attention::token_major(b.data(), tokens, shape.heads, shape.head_dim)
                        : attention::head_major(b.data(), tokens, shape.heads, shape.head_dim);
  }
  attention::MutableView queries(Buffer<float>& b) { return view(b, shape.queries); }
  attention::MutableView keys(Buffer<float>& b) { return view(b, shape.keys); }
  attention::Input input() {
    return {shape, queries(q), keys(k), keys(v), 1 / std::sqrt(static_cast<float>(shape.head_dim))};
  }
  attention::Partial partial() { return {queries(out), lse.data()}; }
  attention::Gradients gradients() {
    return {queries(dout), queries(out), lse.data(), queries(dq), keys(dk), keys(dv)};
  }
};

struct PassTimes {
  double forward, backward;
};

// What is measured in turn on the same tensors. lists == nullptr: dense.
struct Case {
  const KeyLists* lists;
  Threads* threads;
};

std::vector<PassTimes> measure(Tensors& t, const std::vector<Case>& cases) {
  const auto input = t.input();
  std::vector<std::function<void()>> works;
  for (const auto& [lists, threads] : cases) {
    works.emplace_back([&t, input, lists = lists, threads = threads] {
      lists != nullptr ? attention::forward(input, *lists, t.partial(), *threads)
                       : attention::forward_dense(input, t.partial(), *threads);
    });
    works.emplace_back([&t, input, lists = lists, threads = threads] {
      lists != nullptr ? attention::backward(input, *lists, t.gradients(), *threads)
                       : attention::backward_dense(input, t.gradients(), *threads);
    });
  }
  const std::vector<double> seconds = best_in_turn(works);
  std::vector<PassTimes> times;
  for (std::size_t i = 0; i < seconds.size(); i += 2) times.push_back({seconds[i], seconds[i + 1]});
  return times;
}
PassTimes measure(Tensors& t, const KeyLists* lists, Threads& threads) { return measure(t, {{lists, &threads}})[0]; }

// Useful work: two products forward, five backward, a multiply-add counts two.
double forward_flops(double pairs, std::int64_t d) { return 4 * pairs * static_cast<double>(d); }

void add_rows(Bench& bench, const std::string& kind, const std::string& shape, const PassTimes& times, double pairs,
              std::int64_t d, const PassTimes* dense) {
  const double flops = forward_flops(pairs, d);
  const auto over = [&](double mine, double theirs) { return dense != nullptr ? theirs / mine : 0; };
  const PassTimes none{0, 0};
  const PassTimes& base = dense != nullptr ? *dense : none;
  const std::string against = "dense";
  bench.add({kind + " forward " + shape, times.forward, flops, over(times.forward, base.forward), against, {}});
  bench.add(
      {kind + " backward " + shape, times.backward, 2.5 * flops, over(times.backward, base.backward), against, {}});
  if (dense != nullptr) {
    const double both = times.forward + times.backward;
    bench.add({kind + " forward+backward " + shape,
               both,
               3.5 * flops,
               over(both, base.forward + base.backward),
               against,
               {}});
  }
}

std::string shape_name(const attention::Shape& s) { return fmt::format("{}x{}x{}", s.heads, s.queries, s.head_dim); }

double all_pairs(const attention::Shape& s) {
  return static_cast<double>(s.batch * s.heads) * static_cast<double>(s.queries) * static_cast<double>(s.keys);
}

// Random lists: single keys, tiles of 64, or larger blocks, which are runs of tiles.
KeyLists make_lists(const attention::Shape& s, std::int64_t group, std::int64_t block, double sparsity) {
  const auto starts = attention::uniform_groups(s.queries, group);
  if (block == 1) return attention::random_lists(s.batch, s.heads, s.keys, starts, 1 - sparsity, 1, 7);
  const std::int64_t tiles = (s.keys + attention::kTileKeys - 1) / attention::kTileKeys,
                     run = block / attention::kTileKeys;
  const KeyLists blocks =
      attention::random_lists(s.batch, s.heads, (tiles + run - 1) / run, starts, 1 - sparsity, 1, 7);
  attention::KeyListsBuilder builder(s.batch, s.heads, s.keys, starts, attention::kTileKeys);
  std::vector<std::int32_t> list;
  for (std::int64_t i = 0; i < s.batch * s.heads * blocks.groups(); ++i) {
    list.clear();
    for (const std::int64_t b : blocks.list(0, i / blocks.groups(), i % blocks.groups())) {
      for (std::int64_t tile = b * run; tile < std::min((b + 1) * run, tiles); ++tile)
        list.push_back(static_cast<std::int32_t>(tile));
    }
    builder.add(list);
  }
  return builder.finish();
}

void bench_shape(const attention::Shape& shape, const std::vector<double>& sparsities, std::int64_t group,
                 std::int64_t block, Threads& threads, Bench& bench) {
  Tensors t(shape);
  std::vector<KeyLists> lists;
  for (const double sparsity : sparsities) lists.push_back(make_lists(shape, group, block, sparsity));
  std::vector<Case> cases = {{nullptr, &threads}};
  for (const KeyLists& each : lists) cases.push_back({&each, &threads});
  const std::vector<PassTimes> times = measure(t, cases);
  add_rows(bench, "dense", shape_name(shape), times[0], all_pairs(shape), shape.head_dim, nullptr);
  const std::string what = block == 1 ? "keys" : fmt::format("blocks of {}", block);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    add_rows(bench, "sparse", fmt::format("{} {:.1f}% of {}", shape_name(shape), 100 * lists[i].density(), what),
             times[i + 1], static_cast<double>(lists[i].pairs()), shape.head_dim, times.data());
  }
}

// The same work on one thread and on all of them.
void bench_threads(const std::string& name, const attention::Shape& shape, const KeyLists& lists, Threads& threads,
                   Bench& bench) {
  if (threads.count() == 1) return;
  Tensors t(shape);
  Threads one(1);
  const std::vector<PassTimes> times = measure(t, {{&lists, &one}, {&lists, &threads}});
  const PassTimes &alone = times[0], &all = times[1];
  const double flops = forward_flops(static_cast<double>(lists.pairs()), shape.head_dim);
  const std::string against = "one thread";
  bench.add({name + " forward " + shape_name(shape), all.forward, flops, alone.forward / all.forward, against, {}});
  bench.add(
      {name + " backward " + shape_name(shape), all.backward, 2.5 * flops, alone.backward / all.backward, against, {}});
}

// 16 heads from dense to 2 % of the keys: the dense one is a third of all work.
KeyLists very_different_heads(std::int64_t tokens) {
  const auto starts = attention::uniform_groups(tokens, 64);
  attention::KeyListsBuilder builder(1, 16, tokens, starts);
  builder.add_dense_head();
  const double shares[] = {0.5, 0.4, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.02, 0.02};
  std::uint64_t seed = 1;
  for (const double share : shares) {
    const KeyLists head = attention::random_lists(1, 1, tokens, starts, share, 1, seed++);
    for (std::int64_t g = 0; g < head.groups(); ++g) builder.add(head.list(0, 0, g));
  }
  return builder.finish();
}

void bench_table(Threads& threads, Bench& bench) {
  for (const attention::Shape& shape : {attention::Shape{1, 4, 2048, 2048, 64},
                                        {1, 4, 2048, 2048, 128},
                                        {1, 4, 5000, 5000, 72},
                                        {1, 4, 5000, 5000, 96}}) {
    bench_shape(shape, {}, 64, 1, threads, bench);
  }
  for (const std::int64_t d : {64, 128}) bench_shape({1, 4, 8192, 8192, d}, {0.9, 0.98}, 64, 1, threads, bench);
  const attention::Shape shape{1, 4, 8192, 8192, 64};
  {
    Tensors t(shape);
    const KeyLists lists = make_lists(shape, 128, 128, 0.9);
    add_rows(bench, "sparse", fmt::format("{} {:.1f}% of blocks of 128", shape_name(shape), 100 * lists.density()),
             measure(t, &lists, threads), static_cast<double>(lists.pairs()), 64, nullptr);
  }
  {
    Tensors t(shape, true);
    const KeyLists lists = make_lists(shape, 64, 1, 0.9);
    add_rows(bench, "dense", shape_name(shape) + " token-major", measure(t, nullptr, threads), all_pairs(shape), 64,
             nullptr);
    add_rows(bench, "sparse", fmt::format("{} {:.1f}% token-major", shape_name(shape), 100 * lists.density()),
             measure(t, &lists, threads), static_cast<double>(lists.pairs()), 64, nullptr);
  }
  const attention::Shape one{1, 1, 8192, 8192, 64};
  bench_threads("one dense head", one, attention::dense_lists(1, 1, 8192, 8192), threads, bench);
  bench_threads("one sparse head (10%)", one, make_lists(one, 64, 1, 0.9), threads, bench);
  bench_threads("16 uneven heads", {1, 16, 4096, 4096, 64}, very_different_heads(4096), threads, bench);
}

}  // namespace

void bench_attention(const BenchOptions& o) {
  Threads threads(o.threads);
  if (!o.lists.empty()) {
    const KeyLists lists = attention::load_key_lists(o.lists);
    const attention::Shape shape{lists.batch, lists.heads, lists.queries(), lists.keys_tokens,
                                 o.head_dim > 0 ? o.head_dim : 64};
    Tensors t(shape);
    Bench bench("attention over " + o.lists, threads);
    const PassTimes sparse = measure(t, &lists, threads);
    add_rows(bench, "sparse", fmt::format("{} {:.1f}%", shape_name(shape), 100 * lists.density()), sparse,
             static_cast<double>(lists.pairs()), shape.head_dim, nullptr);
    return bench.finish(o.json);
  }
  if (o.heads == 0 && o.tokens == 0 && o.head_dim == 0 && o.sparsity < 0) {
    Bench bench("attention, f32, heads x tokens x head_dim", threads);
    bench_table(threads, bench);
    return bench.finish(o.json);
  }
  const attention::Shape shape{1, o.heads != 0 ? o.heads : 4, o.tokens != 0 ? o.tokens : 8192,
                               o.tokens != 0 ? o.tokens : 8192, o.head_dim != 0 ? o.head_dim : 64};
  if (o.block != 1 && (o.block < 1 || o.block % attention::kTileKeys != 0)) {
    throw Error(fmt::format("--block {}", o.block), "use 1 for single keys, or a multiple of 64");
  }
  Bench bench("attention, f32, heads x tokens x head_dim", threads);
  std::vector<double> sparsities;
  if (o.sparsity >= 0) sparsities.push_back(o.sparsity);
  bench_shape(shape, sparsities, o.group, o.block, threads, bench);
  bench.finish(o.json);
}

}  // namespace reel::app
