#include "reel/report/sparsity_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reel/report/chart.h"
#include "reel/report/run_page.h"
#include "reel/report/sparsity_page_map.h"

namespace reel::report {

namespace {

constexpr int kMostRows = 128;  // of a map, a row a head; beyond it a row is a layer
constexpr int kMostInTable = 64;

struct MapSize {
  int layers = 0, heads = 0;
};

MapSize size_of(const std::vector<MetricRow>& rows) {
  MapSize size;
  for (const MetricRow& row : rows) {
    for (auto at = row.values.lower_bound("needed."); at != row.values.end(); ++at) {
      int layer = 0, head = 0;
      if (std::sscanf(at->first.c_str(), "needed.%d.%d", &layer, &head) != 2) break;
      if (layer < 0 || head < 0 || layer >= 10000 || head >= 10000) continue;
      size = {std::max(size.layers, layer + 1), std::max(size.heads, head + 1)};
    }
  }
  return size;
}

// A head that nobody has looked at (its layer is always dense) has zeros where no other head has them.
double value_of(const MetricRow& row, const char* name, int layer, int head) {
  const auto get = [&](const char* which) { return row.value(fmt::format("{}.{}.{}", which, layer, head)); };
  return get("overlap") > 0 || std::string_view(name) == "sparse" ? get(name) : NAN;
}

double mean_over_heads(const MetricRow& row, const char* name, int layer, int heads) {
  double sum = 0;
  int count = 0;
  for (int head = 0; head < heads; ++head) {
    const double value = value_of(row, name, layer, head);
    if (is_missing(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / count : NAN;
}

Html map_of(const std::vector<MetricRow>& rows, const MapSize& size, const char* name, bool by_layer, std::string title,
            std::string note) {
  HeadMap map{std::move(title), std::move(note), {}, size.layers, by_layer ? 1 : size.heads, {}};
  for (const MetricRow& row : rows) map.steps.push_back(row.step);
  for (int layer = 0; layer < map.layers; ++layer) {
    for (int head = 0; head < map.heads; ++head) {
      for (const MetricRow& row : rows) {
        map.values.push_back(by_layer ? mean_over_heads(row, name, layer, size.heads)
                                      : value_of(row, name, layer, head));
      }
    }
  }
  // A tenth more or less of what is needed is what the map is for, and most of it is small.
  if (std::string_view(name) == "needed") {
    double largest = 0;
    for (const double value : map.values) largest = is_missing(value) ? largest : std::max(largest, value);
    for (const double end : {0.5, 0.2, 0.1, 0.05}) map.most = largest <= end ? end : map.most;
  }
  return head_map(map);
}

std::vector<Html> maps_of(const std::vector<MetricRow>& rows, const MapSize& size) {
  const bool by_layer = size.layers * size.heads > kMostRows;
  const std::string rows_are = by_layer ? " A row is a layer: the mean of its heads." : " A row is a head.";
  return {map_of(rows, size, "sparse", true, "Sparse heads of each layer",
                 "Share of the layer's heads that are sparse. A column is a profile step."),
          map_of(rows, size, "needed", by_layer, "Keys needed",
                 "Share of all keys in the best list of a query group that carries the wanted mass." + rows_are),
          map_of(rows, size, "covered", by_layer, "Mass covered",
                 "Share of the true attention on the keys that the predictor chose." + rows_are),
          map_of(rows, size, "quality", by_layer, "Quality of the choice",
                 "That mass over the mass of the best list of the same size." + rows_are)};
}

void add_table(Page& page, const MetricRow& last, const MapSize& size) {
  const bool by_layer = size.layers * size.heads > kMostInTable;
  struct Column {
    const char *name, *shown;
    Unit unit;
  };
  const std::vector<Column> columns = {{"query_sparsity", "sparsity", Unit::kShare},
                                       {"overlap", "overlap", Unit::kShare},
                                       {"needed", "needed", Unit::kShare},
                                       {"needed_predicted", "predicted", Unit::kShare},
                                       {"rank", "rank", Unit::kNumber},
                                       {"samples", "scored", Unit::kNumber},
                                       {"recall", "recall", Unit::kShare},
                                       {"quality", "quality", Unit::kShare}};
  Table table;
  table.columns =
      by_layer ? std::vector<std::string>{"layer", "sparse"} : std::vector<std::string>{"layer", "head", "attention"};
  for (const Column& column : columns) table.columns.push_back(column.shown);
  for (int layer = 0; layer < size.layers; ++layer) {
    for (int head = 0; head < (by_layer ? 1 : size.heads); ++head) {
      std::vector<std::string> cells = {std::to_string(layer)};
      if (by_layer) {
        cells.push_back(share_text(mean_over_heads(last, "sparse", layer, size.heads)));
      } else {
        cells.push_back(std::to_string(head));
        cells.push_back(value_of(last, "sparse", layer, head) > 0 ? "sparse" : "dense");
      }
      for (const Column& column : columns) {
        cells.push_back(format_value(
            by_layer ? mean_over_heads(last, column.name, layer, size.heads) : value_of(last, column.name, layer, head),
            column.unit));
      }
      table.rows.push_back(std::move(cells));
    }
  }
  page.text(fmt::format(
      "{} at step {}. Sparsity: keys that a query does not need for the wanted mass. Overlap: critical keys of a query "
      "that are critical for the first query of its group, too. Needed: keys of the best list of a group for the mass; "
      "predicted: of the predictor's list. Rank: numbers in a predicted query. Scored: queries of a group that are "
      "asked "
      "for the choice. Recall: share of the best list that the predictor finds. Quality: as above. Shares are moving "
      "averages.",
      by_layer ? "Means over the heads of each layer" : "The heads", format_count(last.step)));
  page.table(table);
}

// Layers that went dense for a pass. The count begins anew with the process, so a run that was resumed has several.
std::int64_t fallbacks_of(const std::vector<MetricRow>& rows) {
  double total = 0, before = 0;
  for (const MetricRow& row : rows) {
    const double now = row.value(metric::kFallbacks);
    if (is_missing(now)) continue;
    total += now >= before ? now - before : now;
    before = now;
  }
  return static_cast<std::int64_t>(total);
}

struct Curves {
  Series kept{"query-key pairs kept", {}, {}, false}, sparse{"heads that are sparse", {}, {}, false};
  Series arithmetic{"", {}, {}, false};
};

Curves curves_of(const SparsitySummary& sparsity, const std::vector<MetricRow>& rows) {
  Curves curves;
  const auto add = [](Series& series, std::int64_t step, double value) {
    if (is_missing(value)) return;
    series.x.push_back(static_cast<double>(step));
    series.y.push_back(value);
  };
  for (const MetricRow& row : rows) {
    const double kept = row.value(metric::kKeptKeys);
    add(curves.kept, row.step, kept);
    add(curves.sparse, row.step, sparsity.heads.empty() ? NAN : row.value(metric::kSparseHeads));
    add(curves.arithmetic, row.step, 1 - (1 - kept) * sparsity.attention_share);
  }
  return curves;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? NAN : sum / static_cast<double>(values.size());
}

}  // namespace

void add_sparsity(Page& page, const SparsitySummary& sparsity, const std::vector<MetricRow>& rows) {
  const Curves curves = curves_of(sparsity, rows);
  page.section("Sparsity");
  if (curves.kept.y.empty()) {
    page.text("No step has been recorded yet.");
    return;
  }
  std::vector<Fact> facts = {{"mode", sparsity.mode},
                             {"pairs of queries and keys kept in the last step", share_text(curves.kept.y.back())}};
  if (!curves.sparse.y.empty()) facts.push_back({"heads sparse in the last step", share_text(curves.sparse.y.back())});
  facts.push_back({"attention arithmetic left out over the run", share_text(1 - mean_of(curves.kept.y))});
  facts.push_back({"of all arithmetic of the model", share_text(1 - mean_of(curves.arithmetic.y))});
  page.facts(facts);
  if (const std::int64_t fallbacks = fallbacks_of(rows); fallbacks > 0) {
    page.notices({fmt::format("Predicted scores were not finite {}: the layer looked at all keys in that pass.",
                              fallbacks == 1 ? "once" : fmt::format("{} times", format_count(fallbacks)))});
  }
  std::vector<Html> charts;
  LineChart kept{.title = "Keys kept", .y_unit = Unit::kShare, .from_zero = true, .series = {curves.kept}};
  if (!curves.sparse.y.empty()) {
    kept.title = "Keys kept and heads sparse";
    kept.series.push_back(curves.sparse);
  }
  kept.height = 200;
  charts.push_back(line_chart(kept));
  LineChart arithmetic{.title = "Arithmetic of a step",
                       .note = "Against a step with dense attention, in which attention is " +
                               share_text(sparsity.attention_share) +
                               ". Arithmetic, not time; choosing keys and profiling are not counted.",
                       .y_unit = Unit::kShare,
                       .from_zero = true,
                       .series = {curves.arithmetic},
                       .references = {{1, "dense"}}};
  arithmetic.height = 200;
  charts.push_back(line_chart(arithmetic));
  page.figures(charts);
  if (const MapSize size = size_of(sparsity.heads); size.layers > 0) {
    page.figures(maps_of(sparsity.heads, size));
    add_table(page, sparsity.heads.back(), size);
  }
  add_group_keys(page, sparsity);
  add_attention_figures(page, sparsity.figures);
}

}  // namespace reel::report
