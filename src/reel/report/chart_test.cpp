#include "reel/report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reel/report/color_map.h"
#include "reel/report/testing.h"

namespace reel::report {
namespace {

constexpr const char* kHostile = "\"><script>&'\xff\x01";

LineChart chart_of(const std::vector<double>& y) {
  LineChart chart{.title = "Loss"};
  chart.series.push_back({"a", {}, y, false});
  for (std::size_t i = 0; i < y.size(); ++i) chart.series[0].x.push_back(static_cast<double>(i));
  return chart;
}

// Each kind of chart, made of these numbers and of this text wherever there is text.
std::vector<std::string> all_charts(const std::vector<double>& values, const std::string& text) {
  std::vector<std::string> charts;
  for (const bool smooth : {false, true}) {
    for (const bool log_y : {false, true}) {
      LineChart line = chart_of(values);
      line.title = line.note = line.x_name = line.series[0].name = text;
      line.series[0].smooth = smooth;
      line.log_y = log_y;
      line.series.push_back({text, values, values, smooth});  // x may be anything, too
      for (const double value : values) line.references.push_back({value, text});
      charts.push_back(line_chart(line).markup);
    }
  }
  BarChart bars{.title = text, .note = text, .suffix = text};
  StackedBars stacked{.title = text, .note = text, .parts = std::vector<std::string>(values.size(), text)};
  stacked.bars = {{text, values}, {text, std::vector<double>(values.size(), 0)}};
  for (const double value : values) {
    bars.bars.push_back({text, value});
    bars.references.push_back({value, text});
  }
  charts.push_back(bar_chart(bars).markup);
  charts.push_back(stacked_bars(stacked).markup);
  charts.push_back(histogram({.title = text, .note = text, .x_name = text, .values = values}).markup);
  charts.push_back(heat_map({.title = text,
                             .note = text,
                             .row_name = text,
                             .column_name = text,
                             .rows = static_cast<int>(values.size()),
                             .columns = 1,
                             .values = values})
                       .markup);
  return charts;
}

TEST(Charts, NothingButFiniteNumbersReachesTheSvg) {
  const double nan = NAN, inf = INFINITY, max = std::numeric_limits<double>::max(),
               least = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> all = {{},
                                                {nan},
                                                {inf, -inf},
                                                {0},
                                                {5},
                                                {-1, -2},
                                                {0, 0, 0},
                                                {nan, 1, nan},
                                                {max, -max},
                                                {least, -least},
                                                {1e300, 1},
                                                {-1e300, 1e300},
                                                {1, 1 + 1e-15},
                                                {inf, 1, 2},
                                                {0, 1e-300},
                                                {1e-250, 1e250},
                                                {3, nan, inf, 4, 5},
                                                std::vector<double>(100, nan),
                                                std::vector<double>(3000, 7)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& chart : all_charts(all[i], "text")) {
      EXPECT_TRUE(holds_only_finite_numbers(chart)) << "values " << i << "\n" << chart;
      EXPECT_EQ(markup_fault(chart), "") << "values " << i;
    }
  }
}

TEST(Charts, TextsAreEscaped) {
  for (const std::string& chart : all_charts({1, 2, 3}, kHostile)) {
    EXPECT_EQ(markup_fault(chart), "");
    EXPECT_EQ(chart.find("<script"), std::string::npos);
    EXPECT_NE(chart.find("&quot;&gt;&lt;script&gt;&amp;&#39;\ufffd\ufffd"), std::string::npos);
  }
}

TEST(Charts, TheSameInputGivesTheSameBytes) {
  const std::vector<double> values = {3, NAN, 1.0 / 3, 1e5, 2};
  EXPECT_EQ(all_charts(values, "text"), all_charts(values, "text"));
}

TEST(LineChart, LongSeriesStaySmall) {
  std::vector<double> values;
  for (int i = 0; i < 200000; ++i) values.push_back(2 + std::sin(i * 12.9898));
  LineChart chart = chart_of(values);
  chart.series[0].smooth = true;
  EXPECT_LT(line_chart(chart).markup.size(), 64000u);
}

TEST(LineChart, AGapCutsTheLineAndAPointAloneIsADot) {
  const auto path = [](const std::vector<double>& y) {
    return all_between(line_chart(chart_of(y)).markup, "<path class=\"curve c0\" d=\"", "\"").at(0);
  };
  EXPECT_EQ(path({0, 10, 20}), "M0 1000L1000 500L2000 0");
  EXPECT_EQ(path({0, 20, NAN, 10, 20}), "M0 1000L500 0M1500 500L2000 0");
  EXPECT_EQ(path({0, NAN, 20}), "M0 1000h0M2000 0h0");
}

TEST(LineChart, PointsAreDrawnInTheOrderOfX) {
  LineChart chart{.series = {{"", {2, 0, 1}, {20, 0, 10}, false}}};
  EXPECT_NE(line_chart(chart).markup.find("M0 1000L1000 500L2000 0"), std::string::npos);
}

TEST(LineChart, ALogAxisLeavesOutWhatItCannotShow) {
  LineChart chart = chart_of({1, 0, 100, -5, 10});
  chart.log_y = true;
  const std::string markup = line_chart(chart).markup;
  EXPECT_NE(markup.find("d=\"M0 1000h0M1000 0h0M2000 500h0\""), std::string::npos) << markup;
  EXPECT_NE(markup.find("log scale"), std::string::npos);
}

TEST(LineChart, AReferenceIsAlwaysInView) {
  LineChart chart = chart_of({1, 2});
  chart.references = {{10, "measured peak"}};
  chart.from_zero = true;
  const std::string markup = line_chart(chart).markup;
  EXPECT_NE(markup.find("<line class=\"reference\" x1=\"0\" x2=\"100%\" y1=\"0%\" y2=\"0%\"/>"), std::string::npos);
  EXPECT_NE(markup.find("measured peak"), std::string::npos);
}

TEST(LineChart, LastValuesStandApart) {
  LineChart chart{.title = "t", .height = 200};
  for (int i = 0; i < 6; ++i) chart.series.push_back({"s", {0, 1}, {0, i == 0 ? 0.0 : 1 + 0.001 * i}, false});
  std::vector<double> at;
  for (const std::string& label : all_between(line_chart(chart).markup, "<text class=\"last c", "</text>")) {
    at.push_back(std::stod(label.substr(label.find("y=\"") + 3)) * 200 / 100);
  }
  ASSERT_EQ(at.size(), 6u);
  for (std::size_t i = 1; i < at.size(); ++i) EXPECT_GE(at[i] - at[i - 1], 13.9);
  EXPECT_LE(at.back(), 200);
}

TEST(LineChart, TheLastValueOfANoisySeriesIsItsMean) {
  LineChart chart = chart_of(std::vector<double>(1000, 1));
  for (std::size_t i = 0; i < 1000; i += 2) chart.series[0].y[i] = 3;
  EXPECT_EQ(last_value(chart, 0), 1);
  chart.series[0].smooth = true;
  EXPECT_NEAR(last_value(chart, 0), 2, 0.1);
  chart.log_y = true;
  EXPECT_NEAR(last_value(chart, 0), 2, 0.1);
  EXPECT_TRUE(std::isnan(last_value(chart_of({NAN}), 0)));
}

TEST(LineChart, ThePointerFindsTheValues) {
  const std::string markup = line_chart(chart_of({0.5, NAN, 0.25})).markup;
  EXPECT_NE(markup.find(">step 0 · a 0.5</text>"), std::string::npos);
  EXPECT_NE(markup.find(">step 2 · a 0.25</text>"), std::string::npos);
  EXPECT_EQ(markup.find(">step 1 "), std::string::npos);
}

TEST(LineChart, ASparseSeriesIsReadTogetherWithItsOwnStep) {
  std::vector<double> steps;
  for (int i = 0; i <= 8000; ++i) steps.push_back(i);
  LineChart chart{.series = {{"training", steps, steps, false}, {"validation", {4033}, {1}, false}}};
  EXPECT_NE(line_chart(chart).markup.find(">step 4,033 · training 4033 · validation 1</text>"), std::string::npos);
}

TEST(SuitsLogAxis, WhenPositiveValuesSpanMoreThanTen) {
  EXPECT_TRUE(suits_log_axis({0.01, 1, NAN}));
  EXPECT_FALSE(suits_log_axis({0.5, 1}));
  EXPECT_FALSE(suits_log_axis({0, 100}));
  EXPECT_FALSE(suits_log_axis({}));
}

TEST(BarChart, LengthsAreInProportion) {
  const std::string markup =
      bar_chart({.suffix = " GFLOP/s", .bars = {{"a", 50, true}, {"b", 25}, {"c", NAN}}, .references = {{100, "peak"}}})
          .markup;
  const auto bars = all_between(markup, "<rect class=\"bar ", "</rect>");
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_NE(bars[0].find("c0\" x=\"0%\" y=\"19\" width=\"50%\""), std::string::npos) << bars[0];
  EXPECT_NE(bars[1].find("quiet\" x=\"0%\" y=\"61\" width=\"25%\""), std::string::npos) << bars[1];
  EXPECT_NE(bars[2].find("width=\"0%\""), std::string::npos);
  EXPECT_NE(markup.find(">50 GFLOP/s</text>"), std::string::npos);
}

TEST(StackedBars, PartsFollowEachOtherAndOneBarHasItsNumbersInTheLegend) {
  StackedBars chart{.parts = {"compute", "wait"}, .bars = {{"rank 0", {3, 1}}, {"rank 1", {1, 1}}}};
  const auto bars = all_between(stacked_bars(chart).markup, "<rect class=\"bar ", "</rect>");
  ASSERT_EQ(bars.size(), 4u);
  EXPECT_NE(bars[1].find("c1\" x=\"75%\" y=\"19\" width=\"25%\""), std::string::npos) << bars[1];
  EXPECT_NE(bars[3].find("c1\" x=\"25%\" y=\"61\" width=\"25%\""), std::string::npos) << bars[3];
  EXPECT_EQ(stacked_bars(chart).markup.find("compute 3"), std::string::npos);
  chart.bars.pop_back();
  EXPECT_NE(stacked_bars(chart).markup.find("compute 3\u00a0s"), std::string::npos);
}

TEST(Histogram, EveryValueIsCountedOnce) {
  Histogram chart{.values = {NAN}};
  for (int i = 0; i < 1000; ++i) chart.values.push_back(std::fmod(i * 0.618, 1) * 7 - 2);
  const std::string markup = histogram(chart).markup;
  int sum = 0;
  for (const std::string& title : all_between(markup, "<title>", "</title>"))
    sum += std::stoi(title.substr(title.find(": ") + 2));
  EXPECT_EQ(sum, 1000);
  EXPECT_NE(markup.find("Without 1 that is not a number."), std::string::npos);
}

TEST(HeatMap, CellsSayTheirValueAndMissingOnesAreEmpty) {
  const std::string markup = heat_map({.row_name = "layer",
                                       .column_name = "head",
                                       .rows = 2,
                                       .columns = 2,
                                       .values = {0, 0.5, NAN, 1},
                                       .unit = Unit::kShare})
                                 .markup;
  EXPECT_NE(markup.find("<title>layer 0, head 1: 50\u00a0%</title>"), std::string::npos);
  EXPECT_NE(markup.find("<title>layer 1, head 0: –</title>"), std::string::npos);
  EXPECT_NE(markup.find("<path class=\"void\" d=\"M0 1h1v1h-1z\"/>"), std::string::npos);
  EXPECT_NE(markup.find("<path fill=\"" + amount_color(0) + "\" d=\"M0 0h1v1h-1z\"/>"), std::string::npos);
  EXPECT_NE(markup.find("<path fill=\"" + amount_color(1) + "\" d=\"M1 1h1v1h-1z\"/>"), std::string::npos);
}

TEST(HeatMap, LargeMapsBecomeMeansOfNeighbours) {
  HeatMap chart{.row_name = "r", .column_name = "c", .rows = 960, .columns = 960, .low = 0, .high = 2.1};
  for (int i = 0; i < 960 * 960; ++i) chart.values.push_back(i % 2 == 0 ? 0 : 2);  // every mean is 1
  chart.values[4] = NAN;                                                           // and is that of the others
  const std::string markup = heat_map(chart).markup;
  EXPECT_LT(markup.size(), 10000u);
  EXPECT_EQ(count_of(markup, "<path "), 1u);
}

TEST(AmountColor, LightnessRisesInEqualSteps) {
  // CIE L* of sRGB: what grey the colour has for the eye.
  const auto lightness = [](const std::string& color) {
    double y = 0;
    const double weights[] = {0.2126, 0.7152, 0.0722};
    for (int i = 0; i < 3; ++i) {
      const double c = std::stoi(color.substr(static_cast<std::size_t>(1 + 2 * i), 2), nullptr, 16) / 255.0;
      y += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return 116 * std::cbrt(y) - 16;
  };
  for (int i = 1; i <= 16; ++i) {
    const double step = lightness(amount_color(i / 16.0)) - lightness(amount_color((i - 1) / 16.0));
    EXPECT_GT(step, 2.5) << i;  // 5 on average; Oklab's lightness and CIE's differ in the saturated blues
    EXPECT_LT(step, 7.5) << i;
  }
}

}  // namespace
}  // namespace reel::report
