#include "reel/app/bench.h"

#include <cmath>

#include "reel/app/app.h"
#include "reel/base/buffer.h"
#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/kernels/gemm.h"

namespace reel::app {

namespace {

constexpr int kMostTokens = 1 << 24;

void bench_peak(const BenchOptions& options) {
  Threads threads(options.threads);
  Bench bench("peak", threads);
  const cost::Machine machine = measure_machine(threads, 0.3);
  bench.add({.name = "f32 multiply-add, one thread", .seconds = 1e9 / machine.peak_one, .flops = 1e9});
  bench.add({.name = "f32 multiply-add, all threads", .seconds = 1e9 / machine.peak_all, .flops = 1e9});
  for (const cost::MemoryLevel& level : machine.levels) {
    for (const auto& [what, rate] : {std::pair("read", level.read), {"write", level.write}, {"copy", level.copy}}) {
      bench.add({.name = fmt::format("{} {}: 1 GB, {:.1f} GB/s", level.name, what, rate / 1e9),
                 .seconds = 1e9 / rate,
                 .more = {{"gigabytes_per_second", rate / 1e9}}});
    }
  }
  bench.finish(options.json);
}

struct LinearShape {
  std::int64_t m, n, k;
};

void bench_linear(const LinearShape& shape, int rounds, Threads& threads, Bench& bench) {
  const auto [m, n, k] = std::tuple(sized(shape.m), sized(shape.n), sized(shape.k));
  check_room(2.0 *
             (static_cast<double>(m) * static_cast<double>(n + k) + static_cast<double>(n) * static_cast<double>(k)));
  Buffer<float> x(m * k), w(n * k), dy(m * n), y(m * n), dx(m * k), dw(n * k), bias(n);
  Random(1).fill_normal(x);
  Random(2).fill_normal(w);
  Random(3).fill_normal(dy);
  Random(4).fill_normal(bias);
  const kernels::Gemm forms[] = {
      {kernels::Form::kXWt, m, n, k, {x.data(), k}, {w.data(), k}, y.data(), n, false, bias.data()},
      {kernels::Form::kDyW, m, k, n, {dy.data(), n}, {w.data(), k}, dx.data(), k},
      {kernels::Form::kDytX, n, k, m, {dy.data(), n}, {x.data(), k}, dw.data(), k},
  };
  const char* names[] = {"x W^T", "dy W", "dy^T x"};
  std::vector<std::function<void()>> works;
  for (const kernels::Gemm& form : forms) works.emplace_back([&] { kernels::gemm(form, threads); });
  const std::vector<double> seconds = best_in_turn(works, rounds);
  for (std::size_t i = 0; i < 3; ++i) {
    bench.add({.name = fmt::format("{} {}x{}x{}", names[i], m, n, k),
               .seconds = seconds[i],
               .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)});
  }
}

}  // namespace

void bench_gemm(const BenchOptions& options) {
  std::vector<LinearShape> shapes = {{4096, 1152, 1152}, {4096, 4608, 1152}};
  if (options.m != 0 || options.n != 0 || options.k != 0) {
    if (options.m == 0 || options.n == 0 || options.k == 0)
      throw Error("a linear layer has three sizes", "give --m, --n and --k");
    shapes = {{options.m, options.n, options.k}};
  }
  Threads threads(options.threads);
  Bench bench("gemm, f32: y = x W^T + b and its gradients, x is m x k, W is n x k", threads);
  for (const LinearShape& shape : shapes) bench_linear(shape, options.rounds, threads, bench);
  bench.finish(options.json);
}

void add_bench(Verb& parser, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  Verb* verb = parser.add_subcommand("bench", "measures kernels as a share of the peak of this machine");
  verb->require_subcommand();
  const auto add = [&](const char* name, const char* text, void (*run)(const BenchOptions&)) {
    Verb* sub = verb->add_subcommand(name, text);
    sub->add_option("--threads", options->threads, "threads to use")->capture_default_str();
    sub->add_option("--json", options->json, "write machine and rows there as well")->type_name("FILE")->to_write();
    sub->callback([options, &action, run] { action = [options, run] { run(*options); }; });
    return sub;
  };
  const auto add_tokens = [&](Verb* sub) {
    sub->add_option("--heads", options->heads, "heads")->between(1, 4096);
    sub->add_option("--tokens", options->tokens, "queries and keys of a head")->between(1, kMostTokens);
    sub->add_option("--head-dim", options->head_dim, "floats of a head")->between(8, 256)->multiple_of(8);
    sub->add_option("--sparsity", options->sparsity, "share of the keys that a group leaves out")->between(0.0, 1.0);
  };
  const auto add_group = [&](Verb* sub) {
    sub->add_option("--group", options->group, "queries that share a list; without: 64")->between(1, kMostTokens);
  };
  const auto add_rounds = [&](Verb* sub) {
    sub->add_option("--rounds", options->rounds, "turns that each case gets at most; three if no more are needed")
        ->between(1, 1000)
        ->capture_default_str();
  };
  add("peak", "multiply-add rate and memory bandwidths", bench_peak);
  Verb* gemm = add("gemm", "linear layers, forward and both gradients", bench_gemm);
  gemm->add_option("--m", options->m, "rows of x (tokens)")->between(1, 1 << 20);
  gemm->add_option("--n", options->n, "rows of W (outputs)")->between(1, 1 << 20);
  gemm->add_option("--k", options->k, "columns of x and W (inputs)")->between(1, 1 << 20);
  add_rounds(gemm);
  Verb* attention = add("attention", "dense and sparse attention, forward and backward", bench_attention);
  add_tokens(attention);
  add_group(attention);
  add_rounds(attention);
  attention->add_option("--block", options->block, "keys that are chosen together: 1, or a multiple of 64; without: 1")
      ->between(1, kMostTokens);
  attention->add_option("--lists", options->lists, "attend to the key lists of this file instead of random ones")
      ->type_name("FILE");
  Verb* select = add("select", "choice of the heaviest keys of each group", bench_select);
  add_tokens(select);
  add_group(select);
  add_rounds(select);
  select->add_option("--rank", options->rank, "floats of a low-rank query or key")
      ->between(1, 4096)
      ->capture_default_str();
  select->add_option("--samples", options->samples, "sample queries of a group")
      ->between(1, 4096)
      ->capture_default_str();
  Verb* sparse = add("sparse", "sparse attention with the choice of its keys, and where it pays", bench_sparse);
  add_tokens(sparse);
  sparse->add_flag("--no-dense", options->no_dense,
                   "only the sparse side, once: for lengths that dense takes hours for");
  add("plan", "balance of partitions compared with published rules, and the time that planning takes", bench_plan);
  Verb* train = add("train", "whole training steps: forward, backward, optimizer", bench_train);
  train->add_option("--model", options->model, "a run file; without: wan, 8 layers, width 384, 4,096 tokens")
      ->type_name("FILE.toml");
  train->add_option("--tokens", options->tokens, "tokens of a clip: the number of frames follows from it")
      ->between(1, kMostTokens);
  train->add_option("--steps", options->steps, "steps to measure after a first one; the best counts")
      ->between(1, 1 << 20)
      ->capture_default_str();
  train->add_option("--set", options->set, "another value for a key of the run file, as train.recompute=true");
  Verb* sequence =
      add("sequence", "mpirun -n 4 reel bench sequence: DSP compared with Ulysses and Ring, bytes and time",
          bench_sequence);
  sequence->add_option("--model", options->model, "a run file; without: configs/stdit3-bench.toml")
      ->type_name("FILE.toml");
  sequence->add_option("--steps", options->steps, "passes to measure after a first one; the best counts")
      ->between(1, 1 << 20)
      ->capture_default_str();
  sequence->add_option("--set", options->set, "another value for a key of the run file, as video.frames=32");
  sequence->add_option("--only", options->only, "one of the ways")->one_of({"dsp", "ulysses-both", "ulysses", "ring"});
  sequence->add_flag("--no-poll", options->no_poll, "compute loops move no messages: what a ring would expose then");
  Verb* quality =
      add("quality", "what sparse training loses: dense, dynamic and controls from the same seeds", bench_quality);
  quality->add_option("--model", options->model, "a run file; without: configs/storyboard-b.toml")
      ->type_name("FILE.toml");
  quality->add_option("--seeds", options->seeds, "runs of each arm")->between(1, 1000)->capture_default_str();
  quality->add_option("--steps", options->train_steps, "steps of a run; without: as the run file says")
      ->between(std::int64_t{1}, std::int64_t{1} << 40);
  quality
      ->add_option("--keys", options->keys,
                   "share of the keys that sparse attention looks at, own tile included; 0: dynamic takes as many as "
                   "each head needs, and all where that gains little, as in training")
      ->between(0.0, 1.0)
      ->capture_default_str();
  quality
      ->add_option("--arms", options->arms,
                   "ways to choose keys, dense first; twin: dense with a learning rate 0.1 % higher")
      ->delimiter(',')
      ->capture_default_str();
  quality->add_option("--set", options->set, "another value for a key of the run file, as data.validation=64");
  quality->add_option("--report", options->report, "write a page with curves and restored clips there")
      ->type_name("FILE.html")
      ->to_write();
}

}  // namespace reel::app
