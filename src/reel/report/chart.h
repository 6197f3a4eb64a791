// Charts for a page: plain structs in, SVG out.
//
// A chart is a <figure>: its title, a legend and an SVG that is as wide as its place on the page while text and lines
// keep their size, so that the same few kilobytes are readable on a desk, on a phone and on paper. Colours come from
// the style sheet of the page (page.h), which knows light and dark. Where the pointer rests, values are shown, without
// scripts. The same input gives the same bytes. Missing values (NaN, infinities) are gaps; they never reach the SVG.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "reel/report/axis.h"
#include "reel/report/html.h"

namespace reel::report {

struct Series {
  std::string name;
  std::vector<double> x, y;  // of equal length; points are drawn in the order of x
  bool smooth = false;       // noisy values: drawn faintly, their moving mean (reduce.h) on top
};

struct Reference {  // a line across the chart to compare with
  double value = 0;
  std::string label;
};

struct LineChart {
  std::string title;
  std::string note;  // a sentence below; may be empty
  std::string x_name = "step";
  Unit y_unit = Unit::kNumber;
  bool log_y = false;
  bool from_zero = false;  // the axis begins at 0: for amounts; not with log_y
  std::vector<Series> series;
  std::vector<Reference> references;
  int height = 240;  // of the plot, in pixels
};
Html line_chart(const LineChart& chart);

// Where the line of a series ends (its moving mean, if it is smoothed): the number at the right of the chart, or NaN.
double last_value(const LineChart& chart, std::size_t series);

// Would a log axis show these values better? All of those there are lie above 0 and span more than a factor of ten.
bool suits_log_axis(const std::vector<double>& values);

struct Bar {
  std::string label;
  double value = 0;        // 0 or more
  bool highlight = false;  // the one that the chart is about
};

struct BarChart {  // horizontal, one bar a line
  std::string title;
  std::string note;
  Unit unit = Unit::kNumber;
  std::string suffix;  // behind each value: " GFLOP/s"
  std::vector<Bar> bars;
  std::vector<Reference> references;
};
Html bar_chart(const BarChart& chart);

struct StackedBar {
  std::string label;
  std::vector<double> values;  // one for each part, 0 or more
};

struct StackedBars {  // where time or memory goes: horizontal bars made of parts
  std::string title;
  std::string note;
  Unit unit = Unit::kSeconds;
  std::vector<std::string> parts;
  std::vector<StackedBar> bars;
};
Html stacked_bars(const StackedBars& chart);

struct Histogram {
  std::string title;
  std::string note;
  std::string x_name;
  Unit unit = Unit::kNumber;
  std::vector<double> values;
  int bins = 0;  // 0: as many as suit the number of values
};
Html histogram(const Histogram& chart);

struct HeatMap {
  std::string title;
  std::string note;
  std::string row_name, column_name;         // "layer", "head"
  std::vector<std::string> column_labels{};  // of up to 16 columns; empty: their numbers
  int rows = 0, columns = 0;                 // more than 96 are drawn as means of neighbours
  std::vector<double> values;                // [rows][columns]
  Unit unit = Unit::kNumber;
  double low = std::numeric_limits<double>::quiet_NaN();  // ends of the colour scale; NaN: of the values
  double high = std::numeric_limits<double>::quiet_NaN();
};
Html heat_map(const HeatMap& chart);

}  // namespace reel::report
