#include "reel/report/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reel::report {
namespace {

std::vector<Point> series(std::size_t count, const auto& y) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    points.push_back({static_cast<double>(i) / static_cast<double>(count - 1), y(i)});
  }
  return points;
}

TEST(Reduce, ShortSeriesStayAndEachGapCutsTheLine) {
  const auto lines = reduce({{0, 1}, {0.2, 2}, {0.4, NAN}, {0.6, NAN}, {0.8, 3}, {1, INFINITY}}, 100);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), 2u);
  ASSERT_EQ(lines[1].size(), 1u);
  EXPECT_EQ(lines[1][0].x, 0.8);
  EXPECT_TRUE(reduce({}, 100).empty());
  EXPECT_TRUE(reduce({{0, NAN}}, 100).empty());
}

TEST(Reduce, LongSeriesKeepEverySpike) {
  const auto lines =
      reduce(series(100000, [](std::size_t i) { return i == 31415   ? 9
                                                       : i == 27182 ? -9
                                                                    : std::sin(i); }), 100);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].size(), 200u);
  double low = 0, high = 0, before = -1;
  for (const Point& point : lines[0]) {
    low = std::min(low, point.y);
    high = std::max(high, point.y);
    EXPECT_GT(point.x, before);
    before = point.x;
  }
  EXPECT_EQ(low, -9);
  EXPECT_EQ(high, 9);
}

TEST(Reduce, OneMissingStepOfManyIsNoGapButAMissingColumnIs) {
  EXPECT_EQ(reduce(series(10000, [](std::size_t i) { return i == 5000 ? NAN : 1; }), 100).size(), 1u);
  EXPECT_EQ(reduce(series(10000, [](std::size_t i) { return i > 4000 && i < 6000 ? NAN : 1; }), 100).size(), 2u);
}

TEST(Smoothed, ALineStaysALineAndNoiseIsAveragedOut) {
  for (const Point& point : smoothed(series(500, [](std::size_t i) { return 2.0 * static_cast<double>(i); }))) {
    if (point.x > 0.97) break;  // where there are fewer points ahead than behind
    EXPECT_NEAR(point.y, 2 * 499 * point.x, 1e-9);
  }
  const auto noise = smoothed(series(100000, [](std::size_t i) { return i % 2 == 0 ? 1.0 : 3.0; }));
  EXPECT_LE(noise.size(), 1000u);
  for (const Point& point : noise) EXPECT_NEAR(point.y, 2, 0.1);
}

TEST(Smoothed, AnExplosionTouchesOnlyItsNeighbours) {
  const auto points = smoothed(series(100000, [](std::size_t i) { return i == 50000 ? 1e30 : 0.1; }));
  EXPECT_NEAR(points[10].y, 0.1, 1e-12);
  EXPECT_NEAR(points[990].y, 0.1, 1e-12);  // a running sum would have forgotten 0.1
}

TEST(Smoothed, WhatIsMissingStaysMissing) {
  const auto points = smoothed({{0, 1}, {0.5, NAN}, {1, 3}});
  EXPECT_EQ(points[0].y, 1);
  EXPECT_TRUE(std::isnan(points[1].y));
  EXPECT_EQ(points[2].y, 3);
}

}  // namespace
}  // namespace reel::report
