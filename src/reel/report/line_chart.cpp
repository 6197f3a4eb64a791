#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "reel/base/error.h"
#include "reel/report/chart.h"
#include "reel/report/figure.h"
#include "reel/report/reduce.h"

namespace reel::report {

namespace {

constexpr int kColumns = 600;   // a plot is some 1000 pixels wide at most; two points a column
constexpr int kReadouts = 80;   // places where the pointer finds values: 10 pixels each, about 20 KB a chart
constexpr int kFewPoints = 40;  // up to here each point gets a dot
constexpr int kEnoughToSmooth = 20;
constexpr double kLabelGap = 14;  // pixels between labels at the ends of lines

struct Curve {
  std::string name;
  std::size_t color;
  std::vector<Point> points;  // sorted by x; what has no place on the chart has y = NaN
  std::vector<Point> mean;    // empty when the series is not smoothed

  const std::vector<Point>& main() const { return mean.empty() ? points : mean; }
  double last() const {
    const auto found = std::find_if(main().rbegin(), main().rend(), [](Point p) { return !is_missing(p.y); });
    return found == main().rend() ? NAN : found->y;
  }
};

std::vector<Curve> curves_of(const LineChart& chart) {
  std::vector<Curve> curves;
  for (std::size_t color = 0; color < chart.series.size(); ++color) {
    const Series& series = chart.series[color];
    REEL_CHECK(series.x.size() == series.y.size());
    Curve curve{series.name, color, {}, {}};
    std::size_t shown = 0;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (is_missing(series.x[i])) continue;
      const bool missing = chart.log_y ? is_missing_on_log_axis(series.y[i]) : is_missing(series.y[i]);
      curve.points.push_back({series.x[i], missing ? NAN : series.y[i]});
      shown += missing ? 0 : 1;
    }
    std::stable_sort(curve.points.begin(), curve.points.end(), [](Point a, Point b) { return a.x < b.x; });
    if (series.smooth && shown >= kEnoughToSmooth) curve.mean = smoothed(curve.points);
    if (shown > 0) curves.push_back(std::move(curve));
  }
  return curves;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) {
    if (is_missing(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::vector<Point> places(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::vector<Point> result;
  result.reserve(points.size());
  for (const Point& point : points) result.push_back({x.at(point.x), y.shows(point.y) ? y.at(point.y) : NAN});
  return result;
}

// In the coordinates of the inner SVG, 2000 x 1000, which is stretched over the plot: a quarter of a pixel.
std::string path_of(const std::vector<Point>& points, int columns) {
  std::string path;
  for (const std::vector<Point>& line : reduce(points, columns)) {
    const char* command = "M";
    for (const Point& point : line) {
      path += fmt::format("{}{} {}", std::exchange(command, "L"), std::lround(point.x * 2000),
                          std::lround((1 - point.y) * 1000));
    }
    if (line.size() == 1) path += "h0";  // a point alone is a dot
  }
  return path;
}

std::string dots_of(const std::vector<Point>& points) {
  std::string path;
  for (const Point& point : points) {
    if (std::isnan(point.y)) continue;
    path += fmt::format("M{} {}h0", std::lround(point.x * 2000), std::lround((1 - point.y) * 1000));
  }
  return path;
}

std::string draw_curves(const std::vector<Curve>& curves, const Axis& x, const Axis& y) {
  std::string out = "<svg viewBox=\"0 0 2000 1000\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">\n";
  const auto draw = [&](const Curve& curve, const std::string& path, const char* kind) {
    out += fmt::format("<path class=\"{} {}\" d=\"{}\"/>\n", kind, color_class(curve.color), path);
  };
  for (const Curve& curve : curves) {
    if (!curve.mean.empty()) draw(curve, path_of(places(curve.points, x, y), kColumns), "raw");
  }
  for (const Curve& curve : curves) {
    const std::vector<Point> main = places(curve.main(), x, y);
    draw(curve, path_of(main, kColumns), "curve");
    if (main.size() <= kFewPoints) draw(curve, dots_of(main), "dots");
  }
  return out + "</svg>\n";
}

std::string draw_references(const LineChart& chart, const Axis& y) {
  std::string out;
  for (const Reference& reference : chart.references) {
    if (!y.shows(reference.value)) continue;
    const std::string at = percent(1 - y.at(reference.value));
    out += fmt::format(
        "<line class=\"reference\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>"
        "<text class=\"reference end\" x=\"100%\" y=\"{}\" dx=\"-6\" dy=\"-6\">{}</text>\n",
        at, at, at, escape(reference.label));
  }
  return out;
}

// The last value of each line, beside its end; values that are close are moved apart.
std::string draw_last_values(const std::vector<Curve>& curves, const LineChart& chart, const Axis& y, int& room) {
  struct Label {
    double at;  // pixels from the top
    std::size_t color;
    std::string text;
  };
  std::vector<Label> labels;
  for (const Curve& curve : curves) {
    const double last = curve.last();
    if (!y.shows(last)) continue;
    labels.push_back({(1 - y.at(last)) * chart.height, curve.color, format_value(last, chart.y_unit)});
    room = std::max(room, 12 + 7 * static_cast<int>(labels.back().text.size()));
  }
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.at < b.at; });
  for (std::size_t i = 1; i < labels.size(); ++i) labels[i].at = std::max(labels[i].at, labels[i - 1].at + kLabelGap);
  double bottom = chart.height;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label, bottom -= kLabelGap) {
    label->at = std::min(label->at, bottom);
  }
  std::string out;
  for (const Label& label : labels) {
    out += fmt::format("<text class=\"last {}\" x=\"100%\" y=\"{}\" dx=\"8\" dy=\"4\">{}</text>\n",
                       color_class(label.color), percent(label.at / chart.height), escape(label.text));
  }
  return out;
}

struct Readout {
  double at = 0;  // share of the x axis
  std::string text, dots;
};

// The point of the curve that is nearest to `wanted` among those shown from `begin` to `end`, shares of the axis; null
// where there is none.
const Point* nearest_point(const Curve& curve, const Axis& x, double begin, double end, double wanted) {
  const auto from_begin = [&](Point p) { return x.at(p.x) < begin; };
  const Point* found = nullptr;
  for (auto point = std::partition_point(curve.points.begin(), curve.points.end(), from_begin);
       point != curve.points.end() && x.at(point->x) < end; ++point) {
    if (std::isnan(point->y)) continue;
    if (found == nullptr || std::fabs(point->x - wanted) < std::fabs(found->x - wanted)) found = &*point;
  }
  return found;
}

std::string format_x(double x) {
  const bool whole = x == std::floor(x) && std::fabs(x) < 1e15;
  return whole ? format_count(static_cast<std::int64_t>(x)) : format_value(x);
}

// The values around one place; text is empty when there are none. The place is that of a point of the series that has
// the fewest: a validation loss is shown together with the training loss of its own step.
Readout read_at(const std::vector<Curve>& curves, const LineChart& chart, const Axis& x, const Axis& y, double begin,
                double end) {
  const Point* anchor = nullptr;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const Curve& curve : curves) {
    if (curve.points.size() >= fewest) continue;
    if (const Point* found = nearest_point(curve, x, begin, end, 0); found != nullptr) {
      anchor = found;
      fewest = curve.points.size();
    }
  }
  if (anchor == nullptr) return {};
  Readout readout{x.at(anchor->x), fmt::format("{} {}", chart.x_name, format_x(anchor->x)), ""};
  for (const Curve& curve : curves) {
    const Point* found = nearest_point(curve, x, begin, end, anchor->x);
    if (found == nullptr) continue;
    readout.text +=
        fmt::format(" · {}{}{}", curve.name, curve.name.empty() ? "" : " ", format_value(found->y, chart.y_unit));
    double shown = found->y;
    if (!curve.mean.empty()) {
      const auto near =
          std::partition_point(curve.mean.begin(), curve.mean.end() - 1, [&](Point p) { return p.x < found->x; });
      if (y.shows(near->y)) shown = near->y;
      readout.text += fmt::format(" · smoothed {}", format_value(near->y, chart.y_unit));
    }
    readout.dots += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"3.5\"/>", color_class(curve.color),
                                percent(x.at(found->x)), percent(1 - y.at(shown)));
  }
  return readout;
}

std::string draw_readouts(const std::vector<Curve>& curves, const LineChart& chart, const Axis& x, const Axis& y) {
  std::vector<Readout> readouts;
  for (int i = 0; i < kReadouts; ++i) {
    const double end =
        i + 1 == kReadouts ? 2 : static_cast<double>(i + 1) / kReadouts;  // the last takes the point at 1
    Readout readout = read_at(curves, chart, x, y, static_cast<double>(i) / kReadouts, end);
    if (!readout.text.empty()) readouts.push_back(std::move(readout));
  }
  std::string out = "<g class=\"readouts\">\n";
  double begin = 0;
  for (std::size_t i = 0; i < readouts.size(); ++i) {
    const double end = i + 1 == readouts.size() ? 1 : (readouts[i].at + readouts[i + 1].at) / 2;
    out += fmt::format(
        "<g><rect x=\"{}\" width=\"{}\" height=\"100%\"/><line x1=\"{}\" x2=\"{}\" y2=\"100%\"/>{}"
        "<text x=\"100%\" y=\"-9\">{}</text></g>\n",
        percent(begin), percent(end - begin), percent(readouts[i].at), percent(readouts[i].at), readouts[i].dots,
        escape(readouts[i].text));
    begin = end;
  }
  return out + "</g>\n";
}

}  // namespace

Html line_chart(const LineChart& chart) {
  const std::vector<Curve> curves = curves_of(chart);
  Figure figure;
  figure.title = chart.title;
  figure.note = chart.note;
  if (curves.empty()) {
    figure.height = 48;
    figure.plot = "<text class=\"empty\" x=\"50%\" y=\"50%\">no finite value</text>\n";
    return render(figure);
  }
  Range xs, ys;
  bool whole = true;
  for (const Curve& curve : curves) {
    for (const Point& point : curve.points) {
      xs.add(point.x);
      ys.add(point.y);
      whole = whole && point.x == std::floor(point.x);
    }
  }
  for (const Reference& reference : chart.references) {
    if (!chart.log_y || !is_missing_on_log_axis(reference.value)) ys.add(reference.value);
  }
  if (chart.from_zero && !chart.log_y) ys.add(0);
  const Axis x(xs.low, xs.high, {.round_ends = false, .whole = whole});
  const Axis y(ys.low, ys.high,
               {.unit = chart.y_unit, .logarithmic = chart.log_y, .ticks = std::max(3, chart.height / 42)});
  figure.height = chart.height;
  figure.padding.left = label_width(y);
  figure.padding.bottom = 40;
  if (curves.size() > 1 || !curves[0].name.empty()) {
    for (const Curve& curve : curves) figure.keys.push_back({curve.name, curve.color});
  }
  if (chart.log_y) figure.legend = "<span>log scale</span>";
  figure.plot = draw_y_axis(y) + draw_x_axis(x, chart.x_name) + draw_curves(curves, x, y) + draw_references(chart, y) +
                draw_last_values(curves, chart, y, figure.padding.right) + draw_readouts(curves, chart, x, y);
  return render(figure);
}

double last_value(const LineChart& chart, std::size_t series) {
  for (const Curve& curve : curves_of(chart)) {
    if (curve.color == series) return curve.last();
  }
  return NAN;
}

bool suits_log_axis(const std::vector<double>& values) {
  Range range;
  for (const double value : values) range.add(value);
  return range.low > 0 && range.high > 10 * range.low;
}

}  // namespace reel::report
