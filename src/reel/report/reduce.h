// Long series made short enough to draw: nobody sees more points than pixels.
//
// A missing y (NaN) is a gap. x ascends.
#pragma once

#include <vector>

namespace reel::report {

struct Point {
  double x, y;
};

// Lines to draw, without gaps in them. Up to twice as many points as columns stay as they are and each gap cuts the
// line. Longer series keep the lowest and the highest point of each column, so that no spike is lost; a gap is drawn
// where a whole column is missing. x has to lie within 0 and 1.
std::vector<std::vector<Point>> reduce(const std::vector<Point>& points, int columns);

// The moving mean over about 4 % of the series: over the same number of points to both sides, at the end over those
// there are, so that it neither lags nor rises above a steep beginning. Long series become means of columns first.
// Missing values do not count, and where a value is missing its mean is, too. Always the arithmetic mean, for a log
// axis too: a geometric one would put a noisy training loss below the validation loss that it is compared with.
std::vector<Point> smoothed(const std::vector<Point>& points);

}  // namespace reel::report
