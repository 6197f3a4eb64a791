#include "reel/report/study_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "reel/files/file.h"
#include "reel/report/chart.h"

namespace reel::report {

namespace {

using Head = StudySummary::Head;

constexpr std::size_t kMostHeadBars = 48;  // heads with a bar each

double mean(const std::vector<Head>& heads, const std::function<double(const Head&)>& value) {
  double sum = 0, count = 0;
  for (const Head& head : heads) {
    if (is_missing(value(head))) continue;
    sum += value(head);
    ++count;
  }
  return count > 0 ? sum / count : NAN;
}

// A row a head.
Html map_of(const StudySummary& s, std::string title, std::string note, std::string column_name,
            std::vector<std::string> labels, const std::function<double(std::size_t head, std::size_t column)>& value) {
  HeatMap map;
  map.title = std::move(title);
  map.note = std::move(note);
  map.row_name = "head";
  map.column_name = std::move(column_name);
  map.rows = static_cast<int>(s.heads.size());
  map.columns = static_cast<int>(labels.size());
  for (std::size_t h = 0; h < s.heads.size(); ++h) {
    for (std::size_t c = 0; c < labels.size(); ++c) map.values.push_back(value(h, c));
  }
  map.column_labels = std::move(labels);
  map.unit = Unit::kShare;
  map.low = 0, map.high = 1;
  return heat_map(map);
}

std::vector<std::string> percents(const std::vector<double>& shares) {
  std::vector<std::string> labels;
  labels.reserve(shares.size());
  for (const double share : shares) labels.push_back(fmt::format("{:.3g}", 100 * share));
  return labels;
}

Html keys_bars(const StudySummary& s) {
  BarChart chart;
  chart.title = fmt::format("Keys of a group's list that carries {}", share_text(s.mass));
  chart.note = "Share of all keys in the best list that the queries of a group can share.";
  chart.unit = Unit::kShare;
  for (std::size_t h = 0; h < std::min(s.heads.size(), kMostHeadBars); ++h) {
    const bool pays = !is_missing(s.break_even) && s.heads[h].group < s.break_even;
    chart.bars.push_back({fmt::format("head {}", h), s.heads[h].group, pays});
  }
  if (s.heads.size() > kMostHeadBars)
    chart.note += fmt::format(" The first {} heads; the table has all.", kMostHeadBars);
  if (!is_missing(s.break_even)) {
    chart.references.push_back({s.break_even, "break-even"});
    chart.note += " Highlighted: below break-even.";
  }
  return bar_chart(chart);
}

Html predictor_chart(const StudySummary& s) {
  LineChart chart;
  chart.title = "Mass covered by lists of a size";
  chart.note = "One list for a group of queries, mean over the heads.";
  chart.x_name = "keys of a list, in percent";
  chart.y_unit = Unit::kShare;
  chart.from_zero = true;
  for (std::size_t p = 0; p < s.predictors.size(); ++p) {
    Series series{s.predictors[p], {}, {}, false};
    for (std::size_t i = 0; i < s.shares.size(); ++i) {
      series.x.push_back(100 * s.shares[i]);
      series.y.push_back(mean(s.heads, [&](const Head& head) { return head.carried[p][i]; }));
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

Html blocks_bars(const StudySummary& s) {
  BarChart chart;
  chart.title = fmt::format("Mass on the best {} of the keys", share_text(s.size));
  chart.note = "Chosen one by one, or in blocks of consecutive keys, by their true weight; mean over the heads.";
  chart.unit = Unit::kShare;
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    chart.bars.push_back({s.blocks[i] == 1 ? "single keys" : fmt::format("blocks of {}", s.blocks[i]),
                          mean(s.heads, [&](const Head& head) { return head.block_covered[i]; }), i == 0});
  }
  return bar_chart(chart);
}

Html distance_map(const StudySummary& s) {
  std::vector<std::string> labels;
  for (const std::size_t distance : s.distances) labels.push_back(std::to_string(distance));
  return map_of(s, "Critical keys within a distance",
                "Share of a query's critical keys that lie no further away than this, in tokens.", "distance in tokens",
                labels, [&](std::size_t h, std::size_t c) {
                  const std::vector<double>& within = s.figures.layers[h].within;
                  return within.empty() ? NAN : within[std::min(s.distances[c], within.size() - 1)];
                });
}

void add_predictors(Page& page, const StudySummary& s) {
  page.section("Does a predictor find the keys",
               fmt::format("Lists of {} of the keys, shared by the queries of a group. Recall: share of the best list "
                           "that is found. Error: |output over the list - output| / |output|.",
                           share_text(s.size)));
  Table table{{"predictor", "mass covered", "recall", "output error"}, {}};
  for (std::size_t p = 0; p < s.predictors.size(); ++p) {
    table.rows.push_back({s.predictors[p], share_text(mean(s.heads, [&](const Head& h) { return h.covered[p]; })),
                          share_text(mean(s.heads, [&](const Head& h) { return h.recall[p]; })),
                          share_text(mean(s.heads, [&](const Head& h) { return h.error[p]; }))});
  }
  page.table(table);
  page.figure(predictor_chart(s));
  page.figures({map_of(s, "Mass covered", "", "predictor", s.predictors,
                       [&](std::size_t h, std::size_t c) { return s.heads[h].covered[c]; }),
                map_of(s, "Recall", "", "predictor", s.predictors,
                       [&](std::size_t h, std::size_t c) { return s.heads[h].recall[c]; })});
}

void add_table(Page& page, const StudySummary& s) {
  Table table{{"head", "a query", "a group", "Gaussian", "overlap"}, {}};
  for (const std::string& name : s.predictors) table.columns.push_back(name);
  for (const int keys : s.blocks) {
    if (keys > 1) table.columns.push_back(fmt::format("blocks of {}", keys));
  }
  for (std::size_t h = 0; h < s.heads.size(); ++h) {
    const Head& head = s.heads[h];
    std::vector<std::string> cells = {std::to_string(h)};
    for (const double value : {head.query, head.group, head.gaussian, head.overlap}) cells.push_back(share_text(value));
    for (const double value : head.covered) cells.push_back(share_text(value));
    for (std::size_t i = 0; i < s.blocks.size(); ++i) {
      if (s.blocks[i] > 1) cells.push_back(share_text(head.block_covered[i]));
    }
    table.rows.push_back(std::move(cells));
  }
  page.section("Head by head",
               fmt::format("Keys that carry {}: of a query, of a group, and of Gaussian scores of the same spread. "
                           "Then the mass covered by lists of {} of the keys, by predictor and in the best blocks.",
                           share_text(s.mass), share_text(s.size)));
  page.table(table);
}

constexpr const char* kHowToRead =
    "A query's critical keys are the fewest that carry the wanted mass of its softmax. Kernels want one list for a "
    "group of neighbouring queries: the sum of their weights decides, and such a list is longer than that of one "
    "query. "
    "Large scores alone make any attention look sparse; the column Gaussian says how many keys scores of the same "
    "spread would need without any structure, and overlap whether neighbours look at the same keys.\n\n"
    "true: the keys that are heaviest by the true scores of all queries of the group, the best list there is. middle: "
    "by the true scores of its middle query alone. rank r: by scores of q and k projected on the r directions "
    "that matter most for their products, in closed form from their second moments. hidden: by low-rank maps of the "
    "layer's input, fitted to q and k. nearest: by distance. random: drawn; what it covers any choice covers.";

}  // namespace

std::string study_page(const StudySummary& s) {
  Page page(s.title, s.subtitle);
  page.headline(s.headline);
  page.notices(s.notices);
  page.section("How many keys count");
  page.figures({map_of(s, "Mass of the heaviest keys of a query", "Share of the attention they carry.",
                       "heaviest keys, in percent", percents(s.figures.curve),
                       [&](std::size_t h, std::size_t c) {
                         const auto& carried = s.figures.layers[h].carried;
                         return c < carried.size() ? carried[c] : NAN;
                       }),
                keys_bars(s)});
  add_predictors(page, s);
  page.section("Single keys or blocks");
  page.figure(blocks_bars(s));
  page.section(
      "What the scores look like",
      fmt::format("Scores are the weights of the softmax over all {} keys, for {} sampled queries of each head.",
                  format_count(s.figures.tokens), format_count(s.figures.queries)));
  std::vector<Html> charts = attention_charts(s.figures);
  charts.push_back(distance_map(s));
  page.figures(charts);
  add_table(page, s);
  page.section("How to read it", kHowToRead);
  return page.html();
}

void write_study_page(const StudySummary& study, const std::string& path) {
  write_file_atomically(path, study_page(study));
}

}  // namespace reel::report
