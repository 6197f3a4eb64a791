#include <time.h>

#include <algorithm>
#include <functional>

#include "reel/app/bench.h"
#include "reel/base/error.h"
#include "reel/plan/baselines.h"
#include "reel/plan/imbalance.h"
#include "reel/plan/planner.h"
#include "reel/plan/samples.h"

namespace reel::app {

namespace {

using plan::Counts;
using plan::Exchange;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Best of several, in time of this core alone.
double best_cpu_seconds(const std::function<void()>& work, int runs) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double start = cpu_seconds();
    work();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

struct Case {
  std::string name;
  int ulysses, ring;
  Exchange exchange;
  std::vector<lists::KeyLists> lists;
};

double measure(const Counts& work, const plan::Partition& p, Exchange exchange) {
  const plan::Tiles t = plan::tiles(work, p);
  return exchange == Exchange::kRing ? plan::rho(t) : plan::rho_no_barrier(t);
}

// Mean imbalance of every way and of reel's; `worse`: cases in which reel's is worse than the best of the others.
struct Line {
  std::vector<double> others;
  double reel = 0, seconds = 0;
  int worse = 0;
};

Line run(const Case& c) {
  Line line;
  line.others.assign(plan::baselines().size(), 0.0);
  const auto count = static_cast<double>(c.lists.size());
  for (const lists::KeyLists& lists : c.lists) {
    const Counts work = plan::count_work(lists, plan::kBlockCost);
    const double start = cpu_seconds();
    const plan::Partition p =
        plan::make_partition(work, {.ulysses = c.ulysses, .ring = c.ring, .exchange = c.exchange});
    line.seconds += (cpu_seconds() - start) / count;
    const double ours = measure(work, p, c.exchange);
    line.reel += ours / count;
    double best = 1e30;
    for (std::size_t i = 0; i < line.others.size(); ++i) {
      const double theirs = measure(work, plan::baselines()[i].make(work, c.ulysses, c.ring), c.exchange);
      line.others[i] += theirs / count;
      best = std::min(best, theirs);
    }
    line.worse += ours > best + 1e-6 ? 1 : 0;
  }
  return line;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [heads, ulysses] : {std::pair(40, 8), {24, 8}, {12, 4}}) {
    Case c{fmt::format("{} heads, Beta(1.2, 2.2), 200 draws", heads), ulysses, 1, Exchange::kRing, {}};
    for (std::uint64_t seed = 0; seed < 200; ++seed)
      c.lists.push_back(plan::lists_of_densities(plan::beta_densities(heads, seed)));
    all.push_back(std::move(c));
  }
  all.push_back({"16 heads, sparsities of a DSV block",
                 4,
                 1,
                 Exchange::kRing,
                 {plan::lists_of_densities(plan::dsv_densities())}});
  for (const Exchange exchange : {Exchange::kRing, Exchange::kGather}) {
    for (const auto& [ulysses, ring] : {std::pair(1, 8), {2, 4}, {4, 2}}) {
      Case c{exchange == Exchange::kRing ? "16 heads x 96 blocks, ring" : "16 heads x 96 blocks, gather",
             ulysses,
             ring,
             exchange,
             {}};
      for (const plan::Kind kind : {plan::Kind::kBanded, plan::Kind::kGlobal, plan::Kind::kPeriodic,
                                    plan::Kind::kClustered, plan::Kind::kMixed}) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) c.lists.push_back(plan::video_lists(kind, 16, 96, seed));
      }
      all.push_back(std::move(c));
    }
  }
  return all;
}

void add_time(Bench& bench, const Counts& work, const std::string& name, const plan::Options& options,
              bool heads_only) {
  constexpr int kRuns = 7;
  plan::Partition p;
  const double ours = best_cpu_seconds(
      [&] {
        if (heads_only) {
          plan::deal_heads(work, options);
        } else {
          p = plan::make_partition(work, options);
        }
      },
      kRuns);
  if (heads_only) p = plan::make_partition(work, options);
  const auto& named = plan::baselines();
  const auto db_sp = std::find_if(named.begin(), named.end(), [](const auto& b) { return b.name == "db-SP"; });
  REEL_CHECK(db_sp != named.end());
  const double theirs = best_cpu_seconds([&] { db_sp->make(work, options.ulysses, options.ring); }, kRuns);
  bench.add({.name = name,
             .seconds = ours,
             .speedup = theirs / ours,
             .against = "db-SP's greedy, in C++",
             .more = {{"rho", plan::rho(plan::tiles(work, p))}, {"db_sp_seconds", theirs}}});
}

}  // namespace

void bench_plan(const BenchOptions& options) {
  Threads threads(options.threads);
  Bench bench("plan: one core, CPU time; the work is counted, partitions begin with contiguous ones", threads);
  {
    const Counts work = plan::count_work(plan::video_lists(plan::Kind::kMixed, 40, 1184, 1), plan::kBlockCost);
    const std::string shape = "40 heads x 1184 x 1184 blocks";
    add_time(bench, work, shape + ", heads on 8", {.ulysses = 8, .ring = 1}, true);
    add_time(bench, work, shape + ", 2 x 4 gather", {.ulysses = 2, .ring = 4, .exchange = Exchange::kGather}, false);
    add_time(bench, work, shape + ", 2 x 4 ring", {.ulysses = 2, .ring = 4}, false);
    add_time(bench, work, shape + ", 4 x 2 ring", {.ulysses = 4, .ring = 2}, false);
    add_time(bench, work, shape + ", 1 x 8 gather", {.ulysses = 1, .ring = 8, .exchange = Exchange::kGather}, false);
    add_time(bench, work, shape + ", 1 x 8 ring", {.ulysses = 1, .ring = 8}, false);
  }
  std::string table = fmt::format("\nmean imbalance\n{:38} {:>6}", "masks", "U x R");
  for (const plan::Baseline& baseline : plan::baselines()) table += fmt::format(" {:>13}", baseline.name);
  table += fmt::format(" {:>8} {:>6}\n{}\n", "reel", "worse", std::string(152, '-'));
  for (const Case& c : cases()) {
    const Line line = run(c);
    table += fmt::format("{:38} {:>6}", c.name, fmt::format("{} x {}", c.ulysses, c.ring));
    BenchRow row{.name = fmt::format("{}, {} x {}", c.name, c.ulysses, c.ring), .seconds = line.seconds};
    for (std::size_t i = 0; i < line.others.size(); ++i) {
      table += fmt::format(" {:>13.4f}", line.others[i]);
      row.more["rho " + plan::baselines()[i].name] = line.others[i];
    }
    row.more["rho reel"] = line.reel;
    row.more["worse than the best of the others"] = line.worse;
    table += fmt::format(" {:>8.4f} {:>6}\n", line.reel, line.worse);
    bench.add(row);
  }
  fmt::print("{}worse: masks on which any of the others is better\n", table);
  bench.finish(options.json);
}

}  // namespace reel::app
