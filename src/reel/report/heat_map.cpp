#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/report/chart.h"
#include "reel/report/color_map.h"
#include "reel/report/figure.h"

namespace reel::report {

namespace {

constexpr int kMost = 96;           // rows or columns drawn
constexpr int kMostTitles = 1500;   // cells that say their value, some 90 bytes each
constexpr int kColorsOfScale = 64;  // steps of lightness that the eye still tells apart

struct Cells {
  int rows, columns;
  std::vector<double> values;

  double at(int row, int column) const { return values[sized(row * columns + column)]; }
};

// At most kMost rows and columns: cells become the mean of what they stand for.
Cells reduced(const HeatMap& chart) {
  Cells cells{std::min(chart.rows, kMost), std::min(chart.columns, kMost), {}};
  const auto begin = [](int index, int parts, int count) {
    return static_cast<int>(static_cast<std::int64_t>(index) * count / parts);
  };
  for (int row = 0; row < cells.rows; ++row) {
    for (int column = 0; column < cells.columns; ++column) {
      double sum = 0, count = 0;
      for (int i = begin(row, cells.rows, chart.rows); i < begin(row + 1, cells.rows, chart.rows); ++i) {
        for (int j = begin(column, cells.columns, chart.columns); j < begin(column + 1, cells.columns, chart.columns);
             ++j) {
          const double value = chart.values[sized(i) * sized(chart.columns) + sized(j)];
          if (is_missing(value)) continue;
          sum += value;
          ++count;
        }
      }
      cells.values.push_back(count > 0 ? sum / count : NAN);
    }
  }
  return cells;
}

std::string color_at(double share) {
  return amount_color(std::round(share * (kColorsOfScale - 1)) / (kColorsOfScale - 1));
}

// 1, 2, 5, 10, 20, ...: so that at most `most` of `count` get a label.
int label_step(int count, int most) {
  int step = 1;
  for (int i = 0; (count + step - 1) / step > std::max(most, 1); ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

std::string draw_scale(const std::string& low, const std::string& high) {
  std::string stops;
  for (int i = 0; i <= 8; ++i) stops += "," + color_at(i / 8.0);
  return fmt::format(
      "<span>{}</span><span class=\"ramp\" style=\"background:linear-gradient(90deg{})\"></span><span>{}</span>",
      escape(low), stops, escape(high));
}

// One path for each colour: a cell that continues to the right is one piece of it. A tenth of the bytes of rectangles.
std::string draw_cells(const Cells& cells, double low, double high) {
  const auto color = [&](int row, int column) {
    const double value = cells.at(row, column);
    if (is_missing(value)) return std::string();
    return color_at(high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0.5);
  };
  std::map<std::string, std::string> paths;  // colour to path; none is a missing value
  for (int row = 0; row < cells.rows; ++row) {
    for (int column = 0, end = 0; column < cells.columns; column = end) {
      const std::string here = color(row, column);
      for (end = column + 1; end < cells.columns && color(row, end) == here;) ++end;
      paths[here] += fmt::format("M{} {}h{}v1h-{}z", column, row, end - column, end - column);
    }
  }
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\" "
      "shape-rendering=\"crispEdges\">\n",
      cells.columns, cells.rows);
  for (const auto& [fill, path] : paths) {
    out += fmt::format("<path {} d=\"{}\"/>\n", fill.empty() ? "class=\"void\"" : "fill=\"" + fill + "\"", path);
  }
  return out + "</svg>\n";
}

std::string column_label(const HeatMap& chart, int column) {
  return chart.column_labels.empty() ? std::to_string(column) : escape(chart.column_labels[sized(column)]);
}

std::string draw_titles(const HeatMap& chart, const Cells& cells) {
  std::string out = "<g class=\"cells\">\n";
  const std::string width = percent(1.0 / cells.columns), height = percent(1.0 / cells.rows);
  for (int row = 0; row < cells.rows; ++row) {
    for (int column = 0; column < cells.columns; ++column) {
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} {}, {} {}: {}</title></rect>\n",
                         percent(static_cast<double>(column) / cells.columns),
                         percent(static_cast<double>(row) / cells.rows), width, height, escape(chart.row_name), row,
                         escape(chart.column_name), column_label(chart, column),
                         escape(format_value(cells.at(row, column), chart.unit)));
    }
  }
  return out + "</g>\n";
}

}  // namespace

Html heat_map(const HeatMap& chart) {
  REEL_CHECK(chart.rows >= 0 && chart.columns >= 0);
  REEL_CHECK(chart.column_labels.empty() ||
             (chart.columns <= 16 && chart.column_labels.size() == sized(chart.columns)));
  REEL_CHECK(chart.values.size() == sized(chart.rows) * sized(chart.columns));
  Figure figure;
  figure.title = chart.title;
  figure.note = chart.note;
  const Cells cells = reduced(chart);
  double low = INFINITY, high = -INFINITY;
  for (const double value : cells.values) {
    if (is_missing(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!is_missing(chart.low)) low = chart.low;
  if (!is_missing(chart.high)) high = chart.high;
  if (is_missing(low) || is_missing(high)) {
    figure.height = 48;
    figure.plot = "<text class=\"empty\" x=\"50%\" y=\"50%\">no finite value</text>\n";
    return render(figure);
  }
  figure.legend = draw_scale(format_value(low, chart.unit), format_value(high, chart.unit));
  figure.height = cells.rows * std::clamp(360 / cells.rows, 5, 22);
  figure.plot += draw_cells(cells, low, high);
  if (cells.rows * cells.columns <= kMostTitles) figure.plot += draw_titles(chart, cells);
  figure.padding = {.top = 28, .right = 10, .bottom = 40, .left = 44};
  figure.plot +=
      fmt::format("<text class=\"tick end\" x=\"0\" y=\"-12\" dx=\"-8\">{}</text>\n", escape(chart.row_name));
  figure.plot +=
      fmt::format("<text class=\"tick mid\" x=\"50%\" y=\"100%\" dy=\"34\">{}</text>\n", escape(chart.column_name));
  for (int row = 0; row < chart.rows; row += label_step(chart.rows, figure.height / 24)) {
    figure.plot += fmt::format("<text class=\"tick end\" x=\"0\" y=\"{}\" dx=\"-8\" dy=\"4\">{}</text>\n",
                               percent((row + 0.5) / chart.rows), row);
  }
  const int step = chart.column_labels.empty() ? label_step(chart.columns, 12) : 1;
  for (int column = 0; column < chart.columns; column += step) {
    figure.plot += fmt::format("<text class=\"tick mid\" x=\"{}\" y=\"100%\" dy=\"17\">{}</text>\n",
                               percent((column + 0.5) / chart.columns), column_label(chart, column));
  }
  return render(figure);
}

}  // namespace reel::report
