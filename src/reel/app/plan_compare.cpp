#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reel/app/measure.h"
#include "reel/app/plan.h"
#include "reel/app/plan_input.h"
#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/plan/strategy.h"
#include "reel/report/plan_page.h"

namespace reel::app {

namespace {

using plan::Strategy;

// Why the best beats the best of each other kind: pure exchange of heads, pure ring, pure gather, and the runner-up.
std::vector<std::string> explanations(const std::vector<Strategy>& all) {
  std::vector<const Strategy*> others;
  const auto add = [&](const auto& is_kind) {
    const auto found = std::find_if(all.begin() + 1, all.end(), is_kind);
    if (found != all.end() && std::find(others.begin(), others.end(), &*found) == others.end())
      others.push_back(&*found);
  };
  if (all.size() < 2) return {};
  add([](const Strategy& s) { return s.degrees.keys() == 1; });
  add([](const Strategy& s) { return s.degrees.ulysses == 1 && s.gathers(); });
  add([](const Strategy& s) { return s.degrees.ulysses == 1 && !s.gathers(); });
  add([](const Strategy&) { return true; });
  std::vector<std::string> texts;
  texts.reserve(others.size());
  for (const Strategy* other : others) texts.push_back(plan::explain(all.front(), *other));
  return texts;
}

void write_json(const std::vector<Strategy>& all, const std::vector<std::string>& why, const PlanOptions& options) {
  nlohmann::ordered_json rows = nlohmann::json::array();
  for (const Strategy& s : all) {
    rows.push_back({{"name", s.name()},
                    {"ulysses", s.degrees.ulysses},
                    {"ring", s.degrees.keys()},
                    {"exchange", s.gathers() ? "gather" : "ring"},
                    {"heads_inside_nodes", !s.degrees.keys_inside},
                    {"rho", s.rho},
                    {"rho_contiguous", s.rho_contiguous},
                    {"bytes", s.bytes},
                    {"memory_bytes", s.memory},
                    {"fits", s.fits},
                    {"seconds", s.seconds()},
                    {"compute_seconds", s.compute_seconds},
                    {"waiting_seconds", s.waiting_seconds},
                    {"heads_seconds", s.heads_seconds},
                    {"rows_seconds", s.rows_seconds},
                    {"keys_seconds", s.keys_seconds}});
  }
  const nlohmann::ordered_json out = {
      {"ranks", options.ranks}, {"cluster", options.cluster}, {"strategies", rows}, {"why", why}};
  write_file_atomically(options.json, out.dump(1) + "\n");
}

void write_page(const std::vector<Strategy>& all, const std::vector<std::string>& why, const PlanInput& input,
                const PlanOptions& options) {
  report::PlanStrategies page;
  page.title = fmt::format("reel plan: {} on {}", std::filesystem::path(input.path).filename().string(),
                           std::filesystem::path(options.cluster).stem().string());
  page.subtitle = fmt::format("{} heads, {} tokens, head dimension {}, {} ranks", input.lists.heads,
                              input.lists.queries(), input.head_dim, options.ranks);
  page.explanations = why;
  for (const Strategy& s : all) {
    page.rows.push_back({s.name(), s.rho, s.rho_contiguous, s.bytes, s.memory, s.compute_seconds, s.waiting_seconds,
                         s.heads_seconds, s.rows_seconds, s.keys_seconds, s.fits});
  }
  if (!all.front().fits) page.notices.emplace_back("No strategy fits into the memory of a rank.");
  report::plan_strategies_page(page).write(options.report);
}

}  // namespace

void plan_compare(const PlanOptions& options) {
  planner_options(options);
  if (options.files.size() != 1) throw Error("plan compare takes one file", "for many steps: reel plan steps");
  const PlanInput input = read_plan_input(options.files.front(), options.head_dim);
  const cost::Cluster cluster = cost::load_cluster(options.cluster);
  const Costing costing = costing_of(input, options.cluster);
  const plan::Counts work = count_work(input, costing.cost, options.ranks);
  constexpr double kGib = 1024.0 * 1024 * 1024;
  if (!(options.memory_gib > 0))
    throw Error(fmt::format("--memory is {}", options.memory_gib), "use GiB above 0, as 40");
  const double memory = std::isinf(options.memory_gib) ? 0 : options.memory_gib * kGib;  // 0: all of the device
  const std::vector<Strategy> all = plan::compare(input.lists, work, {cluster, options.ranks, input.head_dim, memory});
  const std::vector<std::string> why = explanations(all);
  fmt::print("{} on {}: {} heads, {} tokens, head dimension {}, density {:.3f}; one forward pass of the layer\n",
             input.path, options.cluster, work.heads, work.tokens(), input.head_dim, input.lists.density());
  fmt::print("work of a query group: {}\n\n", costing.text);
  fmt::print("{:38} {:>9} {:>7} {:>7}  {:>8} {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}\n", "strategy", "time", "rho",
             "contig.", "compute", "waiting", "heads", "rows", "keys", "bytes", "memory");
  fmt::print("{}\n", std::string(134, '-'));
  for (const Strategy& s : all) {
    fmt::print("{:38} {:>9} {:>7.3f} {:>7.3f}  {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f}  {:>8} {:>8}{}\n", s.name(),
               format_seconds(s.seconds()), s.rho, s.rho_contiguous, s.compute_seconds * 1e3, s.waiting_seconds * 1e3,
               s.heads_seconds * 1e3, s.rows_seconds * 1e3, s.keys_seconds * 1e3, format_bytes(s.bytes),
               format_bytes(s.memory), s.fits ? "" : "  does not fit");
  }
  fmt::print("\nparts in ms; rho as the exchange waits\n");
  for (const std::string& text : why) fmt::print("{}\n", text);
  if (!options.json.empty()) write_json(all, why, options);
  if (!options.report.empty()) write_page(all, why, input, options);
}

}  // namespace reel::app
