// What the attention of one pass looks like: the first figures of the DSV paper (arXiv 2502.07590), of one's own run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reel/report/chart.h"
#include "reel/report/sparsity_page.h"

namespace reel::report {

namespace {

using Figures = AttentionFigures;

constexpr std::size_t kShownLayers = 4;  // lines of a chart
constexpr std::size_t kMostBars = 32;

// First, last, and some between.
std::vector<std::size_t> shown_layers(std::size_t layers, std::size_t most) {
  std::vector<std::size_t> shown;
  const std::size_t count = std::min(layers, most);
  for (std::size_t i = 0; i < count; ++i) shown.push_back(count == 1 ? 0 : i * (layers - 1) / (count - 1));
  return shown;
}

Html scores_chart(const Figures& f, bool cumulative) {
  LineChart chart;
  chart.title = cumulative ? "Scores up to a size" : "Scores by size";
  chart.note = cumulative
                   ? std::string("Share of the scores that are smaller.")
                   : fmt::format(
                         "Share of the scores in each fifth of a power of ten. Equal attention would give every key "
                         "10^{:.1f}. Smaller ones are not drawn: the next chart begins with their share.",
                         -std::log10(static_cast<double>(std::max<std::int64_t>(f.tokens, 1))));
  chart.x_name = "attention score, as a power of ten";
  chart.y_unit = Unit::kShare;
  chart.from_zero = true;
  chart.height = 220;
  for (const std::size_t layer : shown_layers(f.layers.size(), kShownLayers)) {
    Series series{fmt::format("{} {}", f.part, layer), {}, {}, false};
    double sum = 0;
    const std::vector<double>& bins = f.layers[layer].histogram;
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const double begin = (static_cast<double>(i) - static_cast<double>(bins.size())) / f.bins_per_decade;
      sum += bins[i];
      if (i == 0 && !cumulative) continue;  // all that are smaller still
      series.x.push_back(begin + (cumulative ? 1.0 : 0.5) / f.bins_per_decade);
      series.y.push_back(cumulative ? sum : bins[i]);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

Html concentration_chart(const Figures& f) {
  BarChart chart;
  chart.title = fmt::format("Queries whose heaviest {} of the keys carry {}", share_text(f.few), share_text(f.mass));
  chart.note = fmt::format(
      "Share of {} sampled queries of each {}. The DSV paper (arXiv 2502.07590) reports 95.2\u00a0% and 86.8\u00a0% "
      "for two "
      "layers of a model of 2.7 billion parameters.",
      format_count(f.queries), f.part);
  chart.unit = Unit::kShare;
  for (const std::size_t layer : shown_layers(f.layers.size(), kMostBars)) {
    chart.bars.push_back({fmt::format("{} {}", f.part, layer), f.layers[layer].concentrated, false});
  }
  return bar_chart(chart);
}

Html carried_chart(const Figures& f) {
  LineChart chart;
  chart.title = "Mass of the heaviest keys of a query";
  chart.note = "Share of a query's attention on the fewest keys that carry it, mean over the sampled queries.";
  chart.x_name = "heaviest keys, in percent";
  chart.y_unit = Unit::kShare;
  chart.from_zero = true;
  chart.height = 220;
  for (const std::size_t layer : shown_layers(f.layers.size(), kShownLayers)) {
    Series series{fmt::format("{} {}", f.part, layer), {}, f.layers[layer].carried, false};
    for (std::size_t i = 0; i < series.y.size(); ++i) series.x.push_back(100 * f.curve[i]);
    chart.series.push_back(std::move(series));
  }
  chart.references.push_back({f.mass, share_text(f.mass)});
  return line_chart(chart);
}

Html error_chart(const Figures& f) {
  LineChart chart;
  chart.title = "Error of the output over some of the keys";
  chart.note =
      "|output over these keys - output over all| / |output over all|, mean over the sampled queries. "
      "Critical keys are the heaviest of each query; the others were drawn.";
  chart.x_name = "keys kept, in percent";
  chart.y_unit = Unit::kShare;
  chart.from_zero = true;
  chart.height = 220;
  const auto add = [&](const char* name, const std::vector<double>& errors) {
    Series series{name, {}, errors, false};
    for (std::size_t i = 0; i < errors.size(); ++i) series.x.push_back(100 * f.kept[i]);
    chart.series.push_back(std::move(series));
  };
  add("critical keys", f.error_critical);
  add("random keys", f.error_random);
  return line_chart(chart);
}

Html distance_chart(const Figures& f) {
  LineChart chart;
  chart.title = "Where critical keys lie";
  chart.x_name = "distance from the query, in tokens";
  chart.y_unit = Unit::kShare;
  chart.from_zero = true;
  chart.height = 220;
  const auto add = [&](const char* name, const std::vector<double>& within) {
    Series series{name, {}, within, false};
    for (std::size_t i = 0; i < within.size(); ++i) series.x.push_back(static_cast<double>(i));
    chart.series.push_back(std::move(series));
  };
  add("critical keys", f.critical_within);
  add("all keys", f.all_within);
  chart.note = fmt::format(
      "Share of a query's critical keys (the fewest that carry {}) no further away than this in frames, rows and "
      "columns "
      "together (Euclidean), compared with that of all keys.",
      share_text(f.mass));
  constexpr std::size_t kRadius = 5;
  if (f.critical_within.size() > kRadius) {
    chart.note += fmt::format(" Within {} tokens: {} of the critical keys, {} of all.", kRadius,
                              share_text(f.critical_within[kRadius]), share_text(f.all_within[kRadius]));
  }
  return line_chart(chart);
}

Html lengths_chart(const Figures& f) {
  BarChart chart;
  chart.title = "Dense attention in the arithmetic, by length of the clip";
  chart.note = "Share of the arithmetic of a training step of this model; arithmetic, not time.";
  chart.unit = Unit::kShare;
  for (const Figures::Length& length : f.lengths) {
    chart.bars.push_back({fmt::format("{} frames, {} tokens", format_count(length.frames), format_count(length.tokens)),
                          length.attention, &length == f.lengths.data()});
  }
  return bar_chart(chart);
}

}  // namespace

std::vector<Html> attention_charts(const AttentionFigures& f) {
  if (f.layers.empty()) return {};
  std::vector<Html> charts = {scores_chart(f, false), scores_chart(f, true), carried_chart(f)};
  if (!f.error_critical.empty()) charts.push_back(error_chart(f));
  charts.push_back(distance_chart(f));
  charts.push_back(concentration_chart(f));
  return charts;
}

void add_attention_figures(Page& page, const AttentionFigures& f) {
  if (f.layers.empty() && f.lengths.empty()) return;
  page.section("How sparse is this attention");
  std::vector<Html> charts = attention_charts(f);
  if (!f.layers.empty()) {
    page.text(
        fmt::format("One pass over a held-out clip of {} tokens{}, its attention as in training. Scores are the "
                    "weights of the softmax over all keys, for {} sampled queries of each layer.",
                    format_count(f.tokens),
                    is_missing(f.noise) ? "" : fmt::format(", noised to t = {:.2f} (0 is clean, 1 is noise)", f.noise),
                    format_count(f.queries)));
  }
  if (!f.lengths.empty()) charts.push_back(lengths_chart(f));
  page.figures(charts);
}

}  // namespace reel::report
