#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reel/base/error.h"
#include "reel/report/chart.h"
#include "reel/report/figure.h"

namespace reel::report {

namespace {

// One bar a line: its label above it, the value behind its end. Labels of any length fit, on a phone too.
constexpr int kLine = 42, kLabel = 12, kBarTop = 19, kBar = 13;  // pixels

double length_of(double value) { return is_missing(value) ? 0 : std::max(value, 0.0); }

std::string draw_label(std::size_t line, const std::string& label) {
  return fmt::format("<text class=\"label\" x=\"0\" y=\"{}\">{}</text>", static_cast<int>(line) * kLine + kLabel,
                     escape(label));
}

std::string draw_bar(std::size_t line, double begin, double length, const std::string& color,
                     const std::string& title) {
  return fmt::format("<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
                     color, percent(begin), static_cast<int>(line) * kLine + kBarTop, percent(length), kBar,
                     escape(title));
}

std::string draw_value(std::size_t line, double end, const std::string& value) {
  return fmt::format("<text class=\"value\" x=\"{}\" y=\"{}\" dx=\"8\">{}</text>\n", percent(end),
                     static_cast<int>(line) * kLine + kBarTop + kBar - 2, escape(value));
}

int room_for(const std::string& text) { return 16 + 7 * static_cast<int>(text.size()); }

Figure empty_figure(const std::string& title, const std::string& note, std::size_t lines) {
  Figure figure;
  figure.title = title;
  figure.note = note;
  figure.height = std::max(1, static_cast<int>(lines)) * kLine - 6;
  figure.padding = {.top = 6, .right = 10, .bottom = 4, .left = 0};
  return figure;
}

}  // namespace

Html bar_chart(const BarChart& chart) {
  Figure figure = empty_figure(chart.title, chart.note, chart.bars.size());
  double longest = 0;
  for (const Bar& bar : chart.bars) longest = std::max(longest, length_of(bar.value));
  for (const Reference& reference : chart.references) longest = std::max(longest, length_of(reference.value));
  const auto share = [&](double value) { return longest > 0 ? length_of(value) / longest : 0; };
  for (const Reference& reference : chart.references) {
    if (is_missing(reference.value)) continue;
    figure.padding.top = 24;
    const std::string at = percent(share(reference.value));
    figure.plot += fmt::format(
        "<line class=\"reference\" x1=\"{}\" x2=\"{}\" y1=\"-4\" y2=\"100%\"/>"
        "<text class=\"reference{}\" x=\"{}\" y=\"-10\">{}</text>\n",
        at, at, share(reference.value) > 0.5 ? " end" : "", at, escape(reference.label));
  }
  const bool any_highlight =
      std::any_of(chart.bars.begin(), chart.bars.end(), [](const Bar& bar) { return bar.highlight; });
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const Bar& bar = chart.bars[i];
    const std::string value = format_value(bar.value, chart.unit) + chart.suffix;
    figure.plot +=
        draw_label(i, bar.label) +
        draw_bar(i, 0, share(bar.value), any_highlight && !bar.highlight ? "quiet" : "c0", bar.label + ": " + value) +
        draw_value(i, share(bar.value), value);
    figure.padding.right = std::max(figure.padding.right, room_for(value));
  }
  return render(figure);
}

Html stacked_bars(const StackedBars& chart) {
  Figure figure = empty_figure(chart.title, chart.note, chart.bars.size());
  std::vector<double> totals;
  for (const StackedBar& bar : chart.bars) {
    REEL_CHECK(bar.values.size() == chart.parts.size());
    double total = 0;
    for (const double value : bar.values) total += length_of(value);
    totals.push_back(total);
  }
  const double longest = chart.bars.empty() ? 0 : *std::max_element(totals.begin(), totals.end());
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const StackedBar& bar = chart.bars[i];
    figure.plot += draw_label(i, bar.label);
    double end = 0;
    for (std::size_t part = 0; part < chart.parts.size(); ++part) {
      const double length = longest > 0 ? length_of(bar.values[part]) / longest : 0;
      const std::string title = fmt::format("{}: {}", chart.parts[part], format_value(bar.values[part], chart.unit));
      if (length > 0) figure.plot += draw_bar(i, end, length, color_class(part), title);
      end += length;
    }
    const std::string total = format_value(totals[i], chart.unit);
    figure.plot += draw_value(i, end, total);
    figure.padding.right = std::max(figure.padding.right, room_for(total));
  }
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    // One bar alone has its numbers in the legend, where they are read without pointing at anything.
    const std::string value = chart.bars.size() == 1 ? " " + format_value(chart.bars[0].values[part], chart.unit) : "";
    figure.keys.push_back({chart.parts[part] + value, part});
  }
  return render(figure);
}

}  // namespace reel::report
