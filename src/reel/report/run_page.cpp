#include "reel/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "reel/files/file.h"
#include "reel/report/chart.h"

namespace reel::report {

namespace {

constexpr std::size_t kSampleRows = 8;  // of those over training: more make the page heavy and say no more

Series series_of(const RunSummary& run, std::string_view name, const std::string& shown_name, bool smooth) {
  Series series;
  series.name = shown_name;
  series.smooth = smooth;
  for (const MetricRow& row : run.rows) {
    const auto found = row.values.find(name);
    if (found == row.values.end()) continue;
    series.x.push_back(static_cast<double>(row.step));
    series.y.push_back(found->second);
  }
  return series;
}

std::vector<double> values_of(const RunSummary& run, const char* name) {
  std::vector<double> values = series_of(run, name, "", false).y;
  std::erase_if(values, is_missing);
  return values;
}

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

LineChart loss_chart(const RunSummary& run) {
  LineChart chart;
  chart.title = "Loss";
  chart.series = {series_of(run, metric::kLoss, "training", true),
                  series_of(run, metric::kValidationLoss, "validation", false)};
  std::vector<double> all = chart.series[0].y;
  all.insert(all.end(), chart.series[1].y.begin(), chart.series[1].y.end());
  chart.log_y = suits_log_axis(all);
  chart.height = 300;
  return chart;
}

std::vector<Fact> headline_of(const RunSummary& run, const LineChart& loss) {
  std::vector<Fact> facts;
  const auto add = [&](const char* name, double value, Unit unit) {
    if (!is_missing(value) && value > 0) facts.push_back({name, format_value(value, unit)});
  };
  std::int64_t done = 0;
  for (const MetricRow& row : run.rows) done = std::max(done, row.step);
  if (!run.rows.empty()) {
    const bool unfinished = run.planned_steps > done;
    facts.push_back(
        {unfinished ? fmt::format("steps of {}", format_count(run.planned_steps)) : "steps", format_count(done)});
  }
  const double reached = last_value(loss, 0);  // that of a single step is noise
  if (!is_missing(reached)) facts.push_back({"loss", format_value(reached)});
  const std::vector<double> validation = values_of(run, metric::kValidationLoss);
  if (!validation.empty())
    facts.push_back({"best validation", format_value(*std::min_element(validation.begin(), validation.end()))});
  add("tokens/s", median(values_of(run, metric::kTokensPerSecond)), Unit::kNumber);
  add("share of peak", median(values_of(run, metric::kShareOfPeak)), Unit::kShare);
  add("peak memory", run.peak_memory, Unit::kBytes);
  add("wall time", run.wall_seconds, Unit::kSeconds);
  return facts;
}

std::vector<std::string> notices_of(const RunSummary& run) {
  std::vector<std::string> notices;
  if (run.skipped_steps > 0) {
    notices.push_back(fmt::format("{} {} skipped because {} gradients were not finite.",
                                  format_count(run.skipped_steps), run.skipped_steps == 1 ? "step was" : "steps were",
                                  run.skipped_steps == 1 ? "its" : "their"));
  }
  const Series loss = series_of(run, metric::kLoss, "", false);
  const auto missing = std::count_if(loss.y.begin(), loss.y.end(), is_missing);
  if (missing > 0) {
    notices.push_back(fmt::format("The loss is not a finite number in {} of {} steps.", format_count(missing),
                                  format_count(static_cast<std::int64_t>(loss.y.size()))));
  }
  notices.insert(notices.end(), run.warnings.begin(), run.warnings.end());
  return notices;
}

// A chart of one metric, or nothing where the run has none of it.
void add_chart(std::vector<Html>& charts, const RunSummary& run, LineChart chart, std::string_view name, bool smooth) {
  chart.series = {series_of(run, name, "", smooth)};
  if (chart.series[0].y.empty()) return;
  if (!chart.from_zero) chart.log_y = suits_log_axis(chart.series[0].y);
  chart.height = 170;
  charts.push_back(line_chart(chart));
}

std::vector<Html> small_charts(const RunSummary& run) {
  std::vector<Html> charts;
  add_chart(charts, run, {.title = "Tokens per second", .from_zero = true}, metric::kTokensPerSecond, true);
  add_chart(charts, run, {.title = "Share of the measured peak", .y_unit = Unit::kShare, .from_zero = true},
            metric::kShareOfPeak, true);
  add_chart(charts, run, {.title = "Gradient norm"}, metric::kGradientNorm, true);
  add_chart(charts, run, {.title = "Learning rate", .from_zero = true}, metric::kLearningRate, false);
  std::set<std::string_view> others;
  for (const MetricRow& row : run.rows) {
    for (const auto& [name, value] : row.values) others.insert(name);
  }
  for (const char* known : {metric::kLoss, metric::kValidationLoss, metric::kTokensPerSecond, metric::kShareOfPeak,
                            metric::kGradientNorm, metric::kLearningRate}) {
    others.erase(known);
  }
  if (run.sparsity) {  // has charts of its own
    for (const char* known : {metric::kKeptKeys, metric::kSparseHeads, metric::kFallbacks}) others.erase(known);
  }
  for (const std::string_view name : others) add_chart(charts, run, {.title = std::string(name)}, name, true);
  return charts;
}

void add_samples(Page& page, const RunSummary& run) {
  std::map<std::int64_t, std::vector<ClipStrip>> by_step;
  std::vector<ClipStrip> real;
  for (const Sample& sample : run.samples) (sample.real ? real : by_step[sample.step]).push_back(sample.clip);
  if (run.samples.empty()) return;
  std::vector<ClipRow> rows;
  rows.reserve(by_step.size());
  for (auto& [step, clips] : by_step) rows.push_back({fmt::format("step {}", format_count(step)), std::move(clips)});
  page.section("Samples");
  if (rows.size() > kSampleRows) {
    page.text(fmt::format("{} of the {} times that samples were drawn.", kSampleRows, rows.size()));
    std::vector<ClipRow> kept;
    for (std::size_t i = 0; i < kSampleRows; ++i)
      kept.push_back(std::move(rows[i * (rows.size() - 1) / (kSampleRows - 1)]));
    rows = std::move(kept);
  }
  page.figure(clip_grid(rows, real));
}

void add_memory(Page& page, const RunSummary& run) {
  StackedBars chart;
  chart.title = "Peak memory";
  chart.unit = Unit::kBytes;
  chart.bars.emplace_back();
  double known = 0;
  for (const MemoryPart& part : run.memory) {
    chart.parts.push_back(part.name);
    chart.bars[0].values.push_back(part.bytes);
    if (!is_missing(part.bytes)) known += std::max(part.bytes, 0.0);
  }
  if (run.peak_memory > known) {
    chart.parts.push_back(run.memory.empty() ? "in use" : "other");
    chart.bars[0].values.push_back(run.peak_memory - known);
  }
  if (chart.parts.empty()) return;
  page.section("Memory");
  page.figure(stacked_bars(chart));
}

Html facts_panel(const char* heading, const std::vector<Fact>& facts) {
  return {fmt::format("<h3>{}</h3>\n", heading) + facts_list(facts).markup};
}

Page page_of(const RunSummary& run) {
  Page page(run.title, run.subtitle);
  const LineChart loss = loss_chart(run);
  page.headline(headline_of(run, loss));
  page.notices(notices_of(run));
  page.section("Training");
  if (run.rows.empty()) {
    page.text("No step has been recorded yet.");
  } else {
    page.figure(line_chart(loss));
    page.figures(small_charts(run));
  }
  add_samples(page, run);
  if (run.sparsity) add_sparsity(page, *run.sparsity, run.rows);
  add_memory(page, run);
  if (!run.model.empty() || !run.machine.empty() || !run.configuration.empty()) {
    page.section("Setting");
    std::vector<Html> panels;
    if (!run.model.empty()) panels.push_back(facts_panel("Model", run.model));
    if (!run.machine.empty()) panels.push_back(facts_panel("Machine", run.machine));
    page.figures(panels);
    if (!run.configuration.empty()) page.folded("Configuration", run.configuration);
  }
  return page;
}

}  // namespace

std::string run_page(const RunSummary& run) { return page_of(run).html(); }

void write_run_page(const RunSummary& run, const std::string& path) { page_of(run).write(path); }

}  // namespace reel::report
