#include "reel/report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::report {

namespace {

std::size_t characters(std::string_view text) {
  return sized(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string percent(double share) {
  REEL_CHECK(std::isfinite(share));
  std::string text = fmt::format("{:.2f}", share * 100 + 0.0);  // two digits: a tenth of a pixel
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return (text == "-0" ? "0" : text) + "%";
}

std::string color_class(std::size_t index) { return fmt::format("c{}", index % kColors); }

Html render(const Figure& figure) {
  std::string out =
      fmt::format("<figure class=\"chart\">\n<figcaption><span class=\"name\">{}</span>", escape(figure.title));
  if (!figure.keys.empty() || !figure.legend.empty()) {
    out += "<span class=\"keys\">" + figure.legend;
    for (const Key& key : figure.keys) {
      out += fmt::format("<span class=\"key {}\">{}</span>", color_class(key.color), escape(key.name));
    }
    out += "</span>";
  }
  const Padding& p = figure.padding;
  out += fmt::format(
      "</figcaption>\n<svg role=\"img\" aria-label=\"{}\" style=\"height:{}px;padding:{}px {}px {}px "
      "{}px\">\n{}</svg>\n",
      escape(figure.title), p.top + figure.height + p.bottom, p.top, p.right, p.bottom, p.left, figure.plot);
  if (!figure.note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", escape(figure.note));
  return {out + "</figure>\n"};
}

std::string draw_x_axis(const Axis& axis, std::string_view name) {
  std::string out = "<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>\n";
  for (const Tick& tick : axis.ticks()) {
    out += fmt::format("<text class=\"tick mid\" x=\"{}\" y=\"100%\" dy=\"17\">{}</text>\n", percent(tick.at),
                       escape(tick.label));
  }
  if (!name.empty()) {
    out += fmt::format("<text class=\"tick mid\" x=\"50%\" y=\"100%\" dy=\"34\">{}</text>\n", escape(name));
  }
  return out;
}

std::string draw_y_axis(const Axis& axis) {
  std::string out;
  for (const Tick& tick : axis.ticks()) {
    const std::string y = percent(1 - tick.at);
    out += fmt::format(
        "<line class=\"rule\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>"
        "<text class=\"tick end\" x=\"0\" y=\"{}\" dx=\"-8\" dy=\"4\">{}</text>\n",
        y, y, y, escape(tick.label));
  }
  return out;
}

int label_width(const Axis& axis) {
  std::size_t longest = 1;
  for (const Tick& tick : axis.ticks()) longest = std::max(longest, characters(tick.label));
  return 12 + 7 * static_cast<int>(longest);  // digits of the 12 px labels are 6.7 px wide in common fonts
}

}  // namespace reel::report
