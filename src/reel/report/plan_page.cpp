#include "reel/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/report/axis.h"
#include "reel/report/chart.h"

namespace reel::report {

namespace {

std::string three(double value) { return fmt::format("{:.3f}", value); }

constexpr const char* kImbalance =
    "Imbalance is what the slowest rank takes over the mean of all. Where everybody waits after each step of the ring, "
    "the "
    "slowest of every step counts (rho); where nobody waits, the one with most work in all. 1 is perfect.";

// With many ranks the bars would fill the page and say no more.
constexpr std::size_t kMostRanks = 32;

Html work_bars(const std::string& title, const std::vector<double>& work, double slowest_before, bool highlight) {
  BarChart chart;
  chart.title = title;
  chart.references = {{1, "mean"}};
  // Also in the second chart, so that both have one scale.
  if (highlight && slowest_before > 0) chart.references.push_back({slowest_before, "slowest before"});
  for (std::size_t rank = 0; rank < std::min(work.size(), kMostRanks); ++rank)
    chart.bars.push_back({fmt::format("rank {}", rank), work[rank], highlight});
  if (work.size() > kMostRanks) chart.note = fmt::format("The first {} of {} ranks.", kMostRanks, work.size());
  return bar_chart(chart);
}

}  // namespace

Page plan_page(const PlanPage& plan) {
  Page page(fmt::format("reel plan: {}", plan.name), plan.subtitle);
  page.headline({{"imbalance, planned", three(plan.rho)},
                 {"as it comes", three(plan.rho_contiguous)},
                 {"Ulysses x ring", fmt::format("{} x {}", plan.ulysses, plan.ring)},
                 {"blocks that move", format_value(plan.moved_share, Unit::kShare)},
                 {"planned in", format_value(plan.plan_seconds, Unit::kSeconds)}});
  page.section("Work of each rank", kImbalance);
  double slowest = 0;
  for (const double work : plan.work_before) slowest = std::max(slowest, work);
  page.figures({work_bars("As it comes, over the mean", plan.work_before, slowest, false),
                work_bars("Planned, over the mean", plan.work_after, slowest, true)});
  page.table({{"", "contiguous", "planned"},
              {{"rho", three(plan.rho_contiguous), three(plan.rho)},
               {"without waiting between steps", three(plan.rho_contiguous_no_barrier), three(plan.rho_no_barrier)},
               {"bytes moved", "0", format_value(plan.moved_bytes, Unit::kBytes)}}});
  page.text(plan.cost);
  page.section("Who computes what",
               "A line is a head, a column a group of queries, the colour the rank that computes them. Heads of one "
               "Ulysses group stand together.");
  page.figure(owner_map(plan.owners));
  page.section("The mask");
  HeatMap map;
  map.title = "Share of the pairs that are computed, mean over heads";
  map.row_name = "queries", map.column_name = "key block";
  map.rows = plan.rows, map.columns = plan.columns;
  map.values = plan.mask;
  map.unit = Unit::kShare;
  map.low = 0;
  page.figure(heat_map(map));
  map.title = "Share of the keys that each group of queries attends to, by head";
  map.row_name = "head", map.column_name = "query group";
  map.rows = plan.heads, map.columns = plan.rows;
  map.values = plan.head_rows;
  page.figure(heat_map(map));
  return page;
}

Page plan_steps_page(const PlanSteps& steps) {
  Page page(steps.title, steps.subtitle);
  double sum = 0, moved = 0;
  std::size_t plans = 0;
  LineChart chart;
  chart.title = "Imbalance at every step";
  chart.height = 300;
  chart.series = {{"contiguous", {}, {}}, {"plan of the step before", {}, {}}, {"plan in force", {}, {}}};
  chart.references = {{steps.limit, "limit"}};
  BarChart bytes;
  bytes.title = "Bytes moved by each change of plan";
  bytes.unit = Unit::kBytes;
  Table table{{"step", "file", "contiguous", "kept plan", "in force", "new plan", "moved"}, {}};
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const PlanSteps::Step& step = steps.steps[i];
    sum += step.rho, moved += step.moved_bytes, plans += step.planned ? 1 : 0;
    const double values[] = {step.rho_contiguous, step.rho_kept, step.rho};
    for (std::size_t s = 0; s < 3; ++s) {
      chart.series[s].x.push_back(static_cast<double>(i));
      chart.series[s].y.push_back(values[s]);
    }
    if (step.planned) bytes.bars.push_back({fmt::format("step {}", i), step.moved_bytes, true});
    table.rows.push_back({std::to_string(i), step.name, three(step.rho_contiguous), three(step.rho_kept),
                          three(step.rho), step.planned ? "yes" : "",
                          step.planned ? format_value(step.moved_bytes, Unit::kBytes) : ""});
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, steps.steps.size()));
  page.headline({{"mean imbalance", three(sum / count)},
                 {"plans made", fmt::format("{} of {}", plans, steps.steps.size())},
                 {"limit", three(steps.limit)},
                 {"bytes moved in all", format_value(moved, Unit::kBytes)}});
  page.section("Imbalance", "A plan is kept while the imbalance of the present mask under it stays below the limit. " +
                                std::string(kImbalance));
  page.figure(line_chart(chart));
  if (!bytes.bars.empty()) page.figure(bar_chart(bytes));
  page.section("Every step");
  page.table(table);
  return page;
}

Page plan_strategies_page(const PlanStrategies& strategies) {
  Page page(strategies.title, strategies.subtitle);
  page.notices(strategies.notices);
  const auto seconds = [](const PlanStrategies::Row& r) { return r.compute + r.waiting + r.heads + r.rows + r.keys; };
  if (!strategies.rows.empty()) {
    const PlanStrategies::Row& best = strategies.rows.front();
    page.headline({{"best", best.name},
                   {"predicted", format_value(seconds(best), Unit::kSeconds)},
                   {"imbalance", three(best.rho)},
                   {"memory of a rank", format_value(best.memory, Unit::kBytes)}});
  }
  page.section(
      "Where the time goes",
      "One forward pass of one attention layer, predicted. Compute is the mean work of a rank; waiting is for the "
      "slowest one; the rest is communication that nothing hides.");
  StackedBars bars;
  bars.title = "Predicted time of each strategy";
  bars.parts = {"compute", "waiting", "exchange of heads", "moving rows", "keys"};
  Table table{{"strategy", "time", "imbalance", "contiguous", "bytes sent", "memory of a rank", "fits"}, {}};
  for (const PlanStrategies::Row& row : strategies.rows) {
    bars.bars.push_back({row.name, {row.compute, row.waiting, row.heads, row.rows, row.keys}});
    table.rows.push_back({row.name, format_value(seconds(row), Unit::kSeconds), three(row.rho),
                          three(row.rho_contiguous), format_value(row.bytes, Unit::kBytes),
                          format_value(row.memory, Unit::kBytes), row.fits ? "yes" : "no"});
  }
  page.figure(stacked_bars(bars));
  if (!strategies.explanations.empty()) {
    page.section("Why");
    for (const std::string& text : strategies.explanations) page.text(text + ".");
  }
  page.section("All strategies");
  page.table(table);
  return page;
}

}  // namespace reel::report
