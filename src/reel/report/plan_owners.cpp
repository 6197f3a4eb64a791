#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/report/figure.h"
#include "reel/report/plan_page.h"

namespace reel::report {

namespace {

constexpr int kMostGroups = 400;             // query groups drawn; of more, evenly spaced ones
constexpr int kMostKeys = 16;                // ranks that the legend names
constexpr double kSteps[] = {1, 0.55, 0.3};  // eight colours, then the same paler: 24 ranks are told apart

struct Look {
  std::size_t color;
  double opacity;
};
Look look_of(int rank) {
  const auto r = sized(rank);
  return {r % kColors, kSteps[r / kColors % std::size(kSteps)]};
}

}  // namespace

Html owner_map(const OwnerMap& map) {
  const int lines = static_cast<int>(map.heads.size()), columns = std::min(map.rows, kMostGroups);
  REEL_CHECK(map.group_of_line.size() == map.heads.size());
  Figure figure;
  figure.title = map.title;
  figure.note = map.note;
  if (lines == 0 || columns == 0) {
    figure.height = 48;
    figure.plot = "<text class=\"empty\" x=\"50%\" y=\"50%\">nothing to compute</text>\n";
    return render(figure);
  }
  const auto owner = [&](int line, int column) {
    const auto row = sized(static_cast<std::int64_t>(column) * map.rows / columns);
    return map.owner[sized(map.group_of_line[sized(line)])][row];
  };
  std::map<int, std::string> paths;  // of each rank; a run of columns is one piece
  for (int line = 0; line < lines; ++line) {
    for (int column = 0, end = 0; column < columns; column = end) {
      const int rank = owner(line, column);
      for (end = column + 1; end < columns && owner(line, end) == rank;) ++end;
      paths[rank] += fmt::format("M{} {}h{}v1h-{}z", column, line, end - column, end - column);
    }
  }
  figure.plot = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\" "
      "shape-rendering=\"crispEdges\">\n",
      columns, lines);
  for (const auto& [rank, path] : paths) {
    const Look look = look_of(rank);
    figure.plot += fmt::format(
        "<path class=\"{}\" style=\"fill:var(--c);fill-opacity:{}\" d=\"{}\"><title>rank {}</title></path>\n",
        color_class(look.color), look.opacity, path, rank);
  }
  figure.plot += "</svg>\n";
  // Lines between Ulysses groups, the heads beside them.
  figure.height = std::clamp(lines * 14, 90, 420);
  figure.padding = {.top = 28, .right = 10, .bottom = 40, .left = 44};
  figure.plot += "<text class=\"tick end\" x=\"0\" y=\"-12\" dx=\"-8\">head</text>\n";
  const int every = std::max(1, (14 * lines + figure.height - 1) / figure.height);
  for (int line = 0; line < lines; ++line) {
    const auto at = sized(line);
    if (line > 0 && map.group_of_line[at] != map.group_of_line[at - 1]) {
      const std::string y = percent(static_cast<double>(line) / lines);
      figure.plot += fmt::format(
          "<line x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\" style=\"stroke:var(--page);stroke-width:3px\"/>\n", y, y);
    }
    if (line % every != 0) continue;
    figure.plot += fmt::format("<text class=\"tick end\" x=\"0\" y=\"{}\" dx=\"-8\" dy=\"4\">{}</text>\n",
                               percent((line + 0.5) / lines), map.heads[at]);
  }
  for (int i = 0; i < 5; ++i) {
    figure.plot += fmt::format("<text class=\"tick mid\" x=\"{}\" y=\"100%\" dy=\"17\">{}</text>\n", percent(i / 4.0),
                               (map.rows - 1) * i / 4);
  }
  figure.plot += "<text class=\"tick mid\" x=\"50%\" y=\"100%\" dy=\"34\">query group</text>\n";
  for (int rank = 0; rank < std::min(map.ranks, kMostKeys); ++rank) {
    if (look_of(rank).opacity < 1) break;
    figure.keys.push_back({fmt::format("rank {}", rank), look_of(rank).color});
  }
  return render(figure);
}

}  // namespace reel::report
