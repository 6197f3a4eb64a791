#include "reel/report/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::report {

namespace {

constexpr std::size_t kMeans = 1000;  // columns of a long smoothed series

// The mean of each of kMeans equal parts of the series. A part without a value stays, as a gap.
std::vector<Point> means_of_parts(const std::vector<Point>& points) {
  std::vector<Point> means;
  for (std::size_t part = 0; part < kMeans; ++part) {
    const std::size_t begin = points.size() * part / kMeans, end = points.size() * (part + 1) / kMeans;
    Point sum = {0, 0};
    double count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum.x += points[i].x;
      if (!std::isfinite(points[i].y)) continue;
      sum.y += points[i].y;
      ++count;
    }
    means.push_back({sum.x / static_cast<double>(end - begin), count > 0 ? sum.y / count : NAN});
  }
  return means;
}

}  // namespace

std::vector<std::vector<Point>> reduce(const std::vector<Point>& points, int columns) {
  std::vector<std::vector<Point>> lines(1);
  const auto cut = [&] {
    if (!lines.back().empty()) lines.emplace_back();
  };
  const bool whole = points.size() <= 2 * sized(columns);
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i + 1;
    if (!whole) {
      const auto column = [&](std::size_t at) {
        return std::min(static_cast<int>(points[at].x * columns), columns - 1);
      };
      while (end < points.size() && column(end) == column(i)) ++end;
    }
    const Point *low = nullptr, *high = nullptr;
    for (; i < end; ++i) {
      const Point& point = points[i];
      if (!std::isfinite(point.y)) continue;
      REEL_CHECK(point.x >= 0 && point.x <= 1);
      if (low == nullptr || point.y < low->y) low = &point;
      if (high == nullptr || point.y > high->y) high = &point;
    }
    if (low == nullptr) {
      cut();
      continue;
    }
    lines.back().push_back(*std::min(low, high));  // in the order of the series
    if (low != high) lines.back().push_back(*std::max(low, high));
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::vector<Point> smoothed(const std::vector<Point>& points) {
  const std::vector<Point> source = points.size() > 2 * kMeans ? means_of_parts(points) : points;
  const std::size_t radius = source.size() / 50;
  std::vector<Point> result = source;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!std::isfinite(source[i].y)) continue;
    const std::size_t reach = std::min(radius, i), end = std::min(i + reach + 1, source.size());
    double sum = 0, count = 0;
    for (std::size_t j = i - reach; j < end; ++j) {
      if (!std::isfinite(source[j].y)) continue;
      sum += source[j].y;
      ++count;
    }
    result[i].y = sum / count;
  }
  return result;
}

}  // namespace reel::report
