#include <cmath>
#include <functional>
#include <memory>

#include "reel/app/bench.h"
#include "reel/app/lists_file.h"
#include "reel/attention/attention.h"
#include "reel/base/buffer.h"
#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"

namespace reel::app {

namespace {

using lists::KeyLists;

// Tensors as PyTorch's attention takes them, [heads][tokens][head_dim], or as linear layers leave them,
// [tokens][heads][head_dim].
struct Tensors {
  attention::Shape shape;
  bool tokens_first;
  Buffer<float> q, k, v, dout, out, dq, dk, dv, lse;
  explicit Tensors(const attention::Shape& s, bool token_major = false) : shape(s), tokens_first(token_major) {
    const auto floats = sized(s.batch * s.heads * s.head_dim);
    check_room(4.0 * static_cast<double>(floats) * static_cast<double>(s.queries + s.keys));
    std::uint64_t stream = 0;
    for (auto* each : {&q, &dout, &out, &dq}) *each = normal(floats * sized(s.queries), stream++);
    for (auto* each : {&k, &v, &dk, &dv}) *each = normal(floats * sized(s.keys), stream++);
    lse = Buffer<float>(sized(s.batch * s.heads * s.queries));
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

// What is measured on the same tensors. Without lists: dense.
struct AttentionCase {
  std::shared_ptr<const KeyLists> lists;
  Threads* threads;
};
std::shared_ptr<const KeyLists> shared_lists(KeyLists lists) {
  return std::make_shared<const KeyLists>(std::move(lists));
}

// All cases of a bench, measured in turn: a slow minute of the machine would hit a few of them alone else.
class AttentionTable {
 public:
  using Report = std::function<void(const std::vector<PassTimes>&)>;  // gets the times of the cases
  void add(const attention::Shape& shape, bool tokens_first, std::vector<AttentionCase> cases, Report report) {
    auto tensors = std::make_shared<Tensors>(shape, tokens_first);
    entries_.push_back({std::move(tensors), std::move(cases), std::move(report)});
  }
  void run(int rounds) const {
    std::vector<std::function<void()>> works;
    for (const Entry& entry : entries_) {
      for (const AttentionCase& each : entry.cases) add_works(*entry.tensors, each, works);
    }
    const std::vector<double> seconds = best_in_turn(works, rounds);
    std::size_t at = 0;
    for (const Entry& entry : entries_) {
      std::vector<PassTimes> times;
      for (std::size_t i = 0; i < entry.cases.size(); ++i, at += 2) times.push_back({seconds[at], seconds[at + 1]});
      entry.report(times);
    }
  }

 private:
  struct Entry {
    std::shared_ptr<Tensors> tensors;
    std::vector<AttentionCase> cases;
    Report report;
  };
  static void add_works(Tensors& t, const AttentionCase& each, std::vector<std::function<void()>>& works) {
    const lists::ListsView lists = each.lists;
    works.emplace_back([&t, &each, lists] { attention::forward(t.input(), lists, t.partial(), *each.threads); });
    works.emplace_back([&t, &each, lists] { attention::backward(t.input(), lists, t.gradients(), *each.threads); });
  }
  std::vector<Entry> entries_;
};

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
  const auto starts = lists::uniform_groups(s.queries, group);
  if (block == 1) return lists::random_lists(s.batch, s.heads, s.keys, starts, 1 - sparsity, 1, 7);
  const std::int64_t tiles = (s.keys + lists::kTileKeys - 1) / lists::kTileKeys, run = block / lists::kTileKeys;
  const KeyLists blocks = lists::random_lists(s.batch, s.heads, (tiles + run - 1) / run, starts, 1 - sparsity, 1, 7);
  lists::KeyListsBuilder builder(s.batch, s.heads, s.keys, starts, lists::kTileKeys);
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

// Dense, and lists beside it.
void add_shape(const attention::Shape& shape, const std::vector<double>& sparsities, std::int64_t group,
               std::int64_t block, Threads& threads, Bench& bench, AttentionTable& table) {
  std::vector<AttentionCase> cases = {{nullptr, &threads}};
  for (const double sparsity : sparsities)
    cases.push_back({shared_lists(make_lists(shape, group, block, sparsity)), &threads});
  table.add(shape, false, cases, [=, &bench](const std::vector<PassTimes>& times) {
    add_rows(bench, "dense", shape_name(shape), times[0], all_pairs(shape), shape.head_dim, nullptr);
    const std::string what = block == 1 ? "keys" : fmt::format("blocks of {}", block);
    for (std::size_t i = 1; i < cases.size(); ++i) {
      const KeyLists& lists = *cases[i].lists;
      add_rows(bench, "sparse", fmt::format("{} {:.1f}% of {}", shape_name(shape), 100 * lists.density(), what),
               times[i], static_cast<double>(lists.pairs()), shape.head_dim, times.data());
    }
  });
}

// The same work on one thread and on all of them.
void add_threads(const std::string& name, const attention::Shape& shape, KeyLists made, Threads& one, Threads& threads,
                 Bench& bench, AttentionTable& table) {
  if (threads.count() == 1) return;
  const auto lists = shared_lists(std::move(made));
  table.add(shape, false, {{lists, &one}, {lists, &threads}}, [=, &bench](const std::vector<PassTimes>& times) {
    const PassTimes &alone = times[0], &all = times[1];
    const double flops = forward_flops(static_cast<double>(lists->pairs()), shape.head_dim);
    const std::string against = "one thread";
    bench.add({name + " forward " + shape_name(shape), all.forward, flops, alone.forward / all.forward, against, {}});
    bench.add({name + " backward " + shape_name(shape),
               all.backward,
               2.5 * flops,
               alone.backward / all.backward,
               against,
               {}});
  });
}

// Lists alone; `what` follows the shape in the names.
void add_lists(const attention::Shape& shape, bool tokens_first, KeyLists made, const std::string& what,
               Threads& threads, Bench& bench, AttentionTable& table) {
  const auto lists = shared_lists(std::move(made));
  table.add(shape, tokens_first, {{lists, &threads}}, [=, &bench](const std::vector<PassTimes>& times) {
    add_rows(bench, "sparse", fmt::format("{} {:.1f}%{}", shape_name(shape), 100 * lists->density(), what), times[0],
             static_cast<double>(lists->pairs()), shape.head_dim, nullptr);
  });
}

// 16 heads from dense to 2 % of the keys: the dense one is a third of all work.
KeyLists very_different_heads(std::int64_t tokens) {
  const auto starts = lists::uniform_groups(tokens, 64);
  lists::KeyListsBuilder builder(1, 16, tokens, starts);
  builder.add_dense_head();
  const double shares[] = {0.5, 0.4, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.02, 0.02};
  std::uint64_t seed = 1;
  for (const double share : shares) {
    const KeyLists head = lists::random_lists(1, 1, tokens, starts, share, 1, seed++);
    for (std::int64_t g = 0; g < head.groups(); ++g) builder.add(head.list(0, 0, g));
  }
  return builder.finish();
}

void bench_table(int rounds, Threads& threads, Bench& bench) {
  Threads one_thread(1);
  AttentionTable table;
  for (const attention::Shape& shape : {attention::Shape{1, 4, 2048, 2048, 64},
                                        {1, 4, 2048, 2048, 128},
                                        {1, 4, 5000, 5000, 72},
                                        {1, 4, 5000, 5000, 96}}) {
    add_shape(shape, {}, 64, 1, threads, bench, table);
  }
  for (const std::int64_t d : {64, 128}) add_shape({1, 4, 8192, 8192, d}, {0.9, 0.98}, 64, 1, threads, bench, table);
  const attention::Shape shape{1, 4, 8192, 8192, 64}, one{1, 1, 8192, 8192, 64};
  add_lists(shape, false, make_lists(shape, 128, 128, 0.9), " of blocks of 128", threads, bench, table);
  table.add(shape, true, {{nullptr, &threads}}, [&](const std::vector<PassTimes>& times) {
    add_rows(bench, "dense", shape_name(shape) + " token-major", times[0], all_pairs(shape), 64, nullptr);
  });
  add_lists(shape, true, make_lists(shape, 64, 1, 0.9), " token-major", threads, bench, table);
  add_threads("one dense head", one, lists::dense_lists(1, 1, 8192, 8192), one_thread, threads, bench, table);
  add_threads("one sparse head (10%)", one, make_lists(one, 64, 1, 0.9), one_thread, threads, bench, table);
  add_threads("16 uneven heads", {1, 16, 4096, 4096, 64}, very_different_heads(4096), one_thread, threads, bench,
              table);
  table.run(rounds);
}

// Before anything is measured: what would have no effect is refused.
void check_attention_options(const BenchOptions& o) {
  if (o.block > 1 && o.block % lists::kTileKeys != 0)
    throw Error(fmt::format("--block is {}", o.block), "use 1 for single keys, or a multiple of 64");
  if (o.lists.empty()) return;
  const std::pair<const char*, bool> unused[] = {{"--heads", o.heads != 0},
                                                 {"--tokens", o.tokens != 0},
                                                 {"--sparsity", o.sparsity >= 0},
                                                 {"--group", o.group != 0},
                                                 {"--block", o.block != 0}};
  for (const auto& [option, given] : unused) {
    if (given) {
      throw Error(fmt::format("{} has no effect together with --lists {}", option, o.lists),
                  "leave it out: the file says it");
    }
  }
}

}  // namespace

void bench_attention(const BenchOptions& o) {
  check_attention_options(o);
  Threads threads(o.threads);
  if (!o.lists.empty()) {
    lists::OrderedLists lists = lists::load_key_lists(o.lists);
    const attention::Shape shape{lists.batch, lists.heads, lists.queries(), lists.keys_tokens,
                                 head_dim_of(o.lists, lists.head_dim, o.head_dim, 64)};
    Bench bench("attention over " + o.lists, threads);
    AttentionTable table;
    add_lists(shape, false, std::move(lists), "", threads, bench, table);
    table.run(o.rounds);
    return bench.finish(o.json);
  }
  // A group or a block is one of lists, sparse as those of bench select where nothing is said.
  const bool of_lists = o.sparsity >= 0 || o.group != 0 || o.block != 0;
  if (o.heads == 0 && o.tokens == 0 && o.head_dim == 0 && !of_lists) {
    Bench bench("attention, f32, heads x tokens x head_dim, all cases in turn (one to three minutes)", threads);
    bench_table(o.rounds, threads, bench);
    return bench.finish(o.json);
  }
  const attention::Shape shape{1, o.heads != 0 ? o.heads : 4, o.tokens != 0 ? o.tokens : 8192,
                               o.tokens != 0 ? o.tokens : 8192, o.head_dim != 0 ? o.head_dim : 64};
  Bench bench("attention, f32, heads x tokens x head_dim", threads);
  std::vector<double> sparsities;
  if (of_lists) sparsities.push_back(o.sparsity >= 0 ? o.sparsity : 0.9);
  AttentionTable table;
  add_shape(shape, sparsities, o.group != 0 ? o.group : 64, o.block != 0 ? o.block : 1, threads, bench, table);
  table.run(o.rounds);
  bench.finish(o.json);
}

}  // namespace reel::app
