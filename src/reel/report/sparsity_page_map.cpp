#include "reel/report/sparsity_page_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/report/color_map.h"
#include "reel/report/figure.h"

namespace reel::report {

namespace {

constexpr int kMostCellTitles = 1500;   // cells that say their value, some 120 bytes each
constexpr double kColorSteps = 63;      // more are not told apart
constexpr int kLabels = 6;              // below the columns: five digits each fit a phone
constexpr int kLow = 140, kMost = 360;  // pixels of height

int rows_of(const HeadMap& map) { return map.layers * map.heads; }
int columns_of(const HeadMap& map) { return static_cast<int>(map.steps.size()); }
double value_at(const HeadMap& map, int row, int column) { return map.values[sized(row * columns_of(map) + column)]; }

std::string color_at(const HeadMap& map, int row, int column) {
  const double value = value_at(map, row, column);
  if (is_missing(value)) return "";
  return amount_color(std::round(std::clamp(value / map.most, 0.0, 1.0) * kColorSteps) / kColorSteps);
}

// A path for each colour; cells that continue to the right are one piece of it.
std::string draw_cells(const HeadMap& map) {
  std::map<std::string, std::string> paths;
  for (int row = 0; row < rows_of(map); ++row) {
    for (int column = 0, end = 0; column < columns_of(map); column = end) {
      const std::string color = color_at(map, row, column);
      for (end = column + 1; end < columns_of(map) && color_at(map, row, end) == color;) ++end;
      paths[color] += fmt::format("M{} {}h{}v1h-{}z", column, row, end - column, end - column);
    }
  }
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\" "
      "shape-rendering=\"crispEdges\">\n",
      columns_of(map), rows_of(map));
  for (const auto& [color, path] : paths) {
    out += fmt::format("<path {} d=\"{}\"/>\n", color.empty() ? "class=\"void\"" : "fill=\"" + color + "\"", path);
  }
  return out + "</svg>\n";
}

std::string draw_titles(const HeadMap& map) {
  if (rows_of(map) * columns_of(map) > kMostCellTitles) return "";
  std::string out = "<g class=\"cells\">\n";
  const std::string width = percent(1.0 / columns_of(map)), height = percent(1.0 / rows_of(map));
  for (int row = 0; row < rows_of(map); ++row) {
    const std::string head = map.heads > 1 ? fmt::format(", head {}", row % map.heads) : "";
    for (int column = 0; column < columns_of(map); ++column) {
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>layer {}{}, step {}: {}</title></rect>\n",
          percent(static_cast<double>(column) / columns_of(map)), percent(static_cast<double>(row) / rows_of(map)),
          width, height, row / map.heads, head, format_count(map.steps[sized(column)]),
          format_value(value_at(map, row, column), Unit::kShare));
    }
  }
  return out + "</g>\n";
}

// Lines between layers, their numbers, and the steps of some columns.
std::string draw_labels(const HeadMap& map, int height) {
  std::string out = "<text class=\"tick end\" x=\"0\" y=\"-12\" dx=\"-8\">layer</text>\n";
  const int every = std::max(1, 14 * map.layers / height + (14 * map.layers % height != 0 ? 1 : 0));
  for (int layer = 0; layer < map.layers; ++layer) {
    if (layer > 0 && map.heads > 1) {
      const std::string at = percent(static_cast<double>(layer) / map.layers);
      out += fmt::format(
          "<line x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\" style=\"stroke:var(--page);stroke-width:2px\"/>\n", at, at);
    }
    if (layer % every != 0) continue;
    out += fmt::format("<text class=\"tick end\" x=\"0\" y=\"{}\" dx=\"-8\" dy=\"4\">{}</text>\n",
                       percent((layer + 0.5) / map.layers), layer);
  }
  const int columns = columns_of(map), labels = std::min(columns, kLabels);
  for (int i = 0; i < labels; ++i) {
    const int column = labels == 1 ? 0 : i * (columns - 1) / (labels - 1);
    out += fmt::format("<text class=\"tick mid\" x=\"{}\" y=\"100%\" dy=\"17\">{}</text>\n",
                       percent((column + 0.5) / columns), format_count(map.steps[sized(column)]));
  }
  return out + "<text class=\"tick mid\" x=\"50%\" y=\"100%\" dy=\"34\">step</text>\n";
}

}  // namespace

Html head_map(const HeadMap& map) {
  REEL_CHECK(map.values.size() == sized(rows_of(map)) * map.steps.size());
  Figure figure;
  figure.title = map.title;
  figure.note = map.note;
  if (std::all_of(map.values.begin(), map.values.end(), is_missing)) {
    figure.height = 48;
    figure.plot = "<text class=\"empty\" x=\"50%\" y=\"50%\">no finite value</text>\n";
    return render(figure);
  }
  std::string stops;
  for (int i = 0; i <= 8; ++i) stops += "," + amount_color(i / 8.0);
  figure.legend = fmt::format(
      "<span>0 %</span><span class=\"ramp\" style=\"background:linear-gradient(90deg{})\"></span><span>{}</span>",
      stops, format_value(map.most, Unit::kShare));
  figure.height = std::clamp(rows_of(map) * 11, kLow, kMost);
  figure.padding = {.top = 28, .right = 16, .bottom = 40, .left = 44};
  figure.plot = draw_cells(map) + draw_titles(map) + draw_labels(map, figure.height);
  return render(figure);
}

}  // namespace reel::report
