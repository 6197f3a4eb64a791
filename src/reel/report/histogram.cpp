#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "reel/base/sized.h"
#include "reel/report/chart.h"
#include "reel/report/figure.h"

namespace reel::report {

Html histogram(const Histogram& chart) {
  Figure figure;
  figure.title = chart.title;
  figure.note = chart.note;
  std::vector<double> values;
  std::copy_if(chart.values.begin(), chart.values.end(), std::back_inserter(values),
               [](double v) { return !is_missing(v); });
  const std::size_t missing = chart.values.size() - values.size();
  if (missing > 0) {
    if (!figure.note.empty()) figure.note += ' ';
    figure.note += fmt::format("Without {} that {} not a number.", format_count(static_cast<std::int64_t>(missing)),
                               missing == 1 ? "is" : "are");
  }
  if (values.empty()) {
    figure.height = 48;
    figure.plot = "<text class=\"empty\" x=\"50%\" y=\"50%\">no finite value</text>\n";
    return render(figure);
  }
  const double low = *std::min_element(values.begin(), values.end());
  const double high = *std::max_element(values.begin(), values.end());
  const Axis x(low, high, {.unit = chart.unit, .ticks = 6});
  // Twice the cube root of the count (Rice's rule): 20 bins for 1,000 values.
  const int automatic =
      std::clamp(static_cast<int>(std::lround(2 * std::cbrt(static_cast<double>(values.size())))), 5, 60);
  const int bins = low == high ? 1 : chart.bins > 0 ? std::min(chart.bins, 400) : automatic;
  std::vector<std::int64_t> counts(sized(bins));
  // Bins divide the range of the values, not that of the axis, whose round ends would leave empty ones at the sides.
  const double begin = x.at(low), width = std::max(x.at(high) - begin, 0.02);
  for (const double value : values) {
    const int bin = static_cast<int>((x.at(value) - begin) / width * bins);
    ++counts[sized(std::clamp(bin, 0, bins - 1))];
  }
  const auto largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  const Axis y(0, largest, {.whole = true});
  figure.height = 180;
  figure.padding.left = label_width(y);
  figure.padding.bottom = chart.x_name.empty() ? 24 : 40;
  figure.plot = draw_y_axis(y);
  for (int bin = 0; bin < bins; ++bin) {
    const std::int64_t count = counts[sized(bin)];
    if (count == 0) continue;
    const double height = y.at(static_cast<double>(count)), step = width / bins;
    const auto edge = [&](int i) { return low + (high - low) * i / bins; };
    figure.plot += fmt::format(
        "<rect class=\"bar gap c0\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} to {}: {}</title></rect>\n",
        percent(begin + bin * step), percent(1 - height), percent(std::min(step, 1 - begin - bin * step)),
        percent(height), escape(format_value(edge(bin), chart.unit)), escape(format_value(edge(bin + 1), chart.unit)),
        format_count(count));
  }
  figure.plot += draw_x_axis(x, chart.x_name);
  return render(figure);
}

}  // namespace reel::report
