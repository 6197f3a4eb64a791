// The keys of one query group, marked in the frames of a clip.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "reel/report/axis.h"
#include "reel/report/figure.h"
#include "reel/report/sparsity_page.h"

namespace reel::report {

namespace {

constexpr int kFrameWidth = 110;  // pixels at least: eight frames beside each other on a desk, three on a phone

// Cells of the token grid in one frame as a path; neighbours in a row are one piece. The unit is one token.
std::string cells_of(const std::vector<std::int32_t>& tokens, const std::array<std::int64_t, 3>& grid,
                     std::int64_t frame) {
  std::vector<std::int64_t> cells;
  for (const std::int64_t token : tokens) {
    if (token / (grid[1] * grid[2]) == frame) cells.push_back(token % (grid[1] * grid[2]));
  }
  std::sort(cells.begin(), cells.end());
  std::string path;
  for (std::size_t i = 0, end = 0; i < cells.size(); i = end) {
    const auto row = [&](std::size_t at) { return cells[at] / grid[2]; };
    for (end = i + 1; end < cells.size() && cells[end] == cells[end - 1] + 1 && row(end) == row(i);) ++end;
    path += fmt::format("M{} {}h{}v1h-{}z", cells[i] % grid[2], row(i), end - i, end - i);
  }
  return path;
}

// The rectangle around a group's tokens in one frame (tiles are cuboids), or nothing.
std::string outline_of(const std::vector<std::int32_t>& tokens, const std::array<std::int64_t, 3>& grid,
                       std::int64_t frame) {
  std::int64_t top = grid[1], left = grid[2], bottom = 0, right = 0;
  for (const std::int64_t token : tokens) {
    const std::int64_t row = token / grid[2] % grid[1], column = token % grid[2];
    if (token / (grid[1] * grid[2]) != frame) continue;
    top = std::min(top, row), bottom = std::max(bottom, row + 1);
    left = std::min(left, column), right = std::max(right, column + 1);
  }
  return bottom == 0 ? "" : fmt::format("M{} {}H{}V{}H{}z", left, top, right, bottom, left);
}

// One frame: the picture, in pale grey so that marks stand out, with keys and group on it. The SVG counts in tokens and
// is as wide as its place.
std::string draw_frame(const GroupKeys& g, const GroupKeys::Head& head, const GroupKeys::Frame& frame) {
  const std::string size = fmt::format("width=\"{}\" height=\"{}\"", g.grid[2], g.grid[1]);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" style=\"display:block;width:100%;aspect-ratio:{}/{}\">"
      "<image {} preserveAspectRatio=\"none\" style=\"image-rendering:pixelated;filter:grayscale(1) contrast(0.4) "
      "brightness(1.25)\" "
      "href=\"data:image/png;base64,{}\"/>",
      g.grid[2], g.grid[1], g.width, g.height, size, base64(frame.png));
  if (const std::string keys = cells_of(head.keys, g.grid, frame.number); !keys.empty()) {
    out += fmt::format("<path class=\"c1\" style=\"fill:var(--c);fill-opacity:0.7\" d=\"{}\"/>", keys);
  }
  if (const std::string group = outline_of(g.group, g.grid, frame.number); !group.empty()) {
    // Twice, so that it is seen on light and on dark pictures.
    for (const auto* stroke : {"#000;stroke-width:4px", "#fff;stroke-width:2px"}) {
      out +=
          fmt::format("<path style=\"fill:none;stroke:{};vector-effect:non-scaling-stroke\" d=\"{}\"/>", stroke, group);
    }
  }
  return out + "</svg>";
}

Html draw_head(const GroupKeys& g, const GroupKeys::Head& head) {
  const double all = static_cast<double>(g.grid[0] * g.grid[1] * g.grid[2]);
  std::string out = fmt::format(
      "<figure class=\"chart\"><figcaption><span class=\"name\">Layer {}, head {}</span>"
      "<span class=\"keys\"><span>{} of {} keys ({}), which carry {} of the group's attention</span></span>"
      "</figcaption>\n<div style=\"display:grid;gap:8px;margin-top:8px;"
      "grid-template-columns:repeat(auto-fill,minmax(min(100%,{}px),1fr))\">\n",
      head.layer, head.head, format_count(static_cast<std::int64_t>(head.keys.size())),
      format_count(static_cast<std::int64_t>(all)),
      escape(format_value(static_cast<double>(head.keys.size()) / all, Unit::kShare)),
      escape(format_value(head.covered, Unit::kShare)), kFrameWidth);
  for (const GroupKeys::Frame& frame : g.frames) {
    out += fmt::format("<div>{}<div class=\"note\" style=\"margin:0\">frame {}</div></div>\n",
                       draw_frame(g, head, frame), frame.number);
  }
  return {out + "</div>\n</figure>\n"};
}

}  // namespace

void add_group_keys(Page& page, const SparsitySummary& sparsity) {
  const GroupKeys& g = sparsity.group;
  if (g.frames.empty()) return;
  page.section("The keys of one group");
  if (g.heads.empty()) {
    page.text("No head is sparse in this step: every query looks at all keys.");
    return;
  }
  std::string text = fmt::format(
      "A held-out clip, shown without its noise and in pale grey. The queries of the outlined group ({} "
      "tokens) look at the keys marked "
      "in orange and at no others. Every head has its own list.",
      g.group.size());
  if (static_cast<std::int64_t>(g.frames.size()) < g.grid[0]) {
    text += fmt::format(" {} of {} frames of tokens are shown.", g.frames.size(), g.grid[0]);
  }
  page.text(text);
  for (const GroupKeys::Head& head : g.heads) page.figure(draw_head(g, head));
}

}  // namespace reel::report
