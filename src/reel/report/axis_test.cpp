#include "reel/report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reel::report {
namespace {

std::string labels(const Axis& axis) {
  std::string text;
  for (const Tick& tick : axis.ticks()) text += (text.empty() ? "" : " ") + tick.label;
  return text;
}

TEST(FormatValue, IsShortAndHasAUnit) {
  EXPECT_EQ(format_value(0), "0");
  EXPECT_EQ(format_value(0.0123456), "0.01235");
  EXPECT_EQ(format_value(0.5), "0.5");
  EXPECT_EQ(format_value(-612.34), "-612.3");
  EXPECT_EQ(format_value(1234), "1234");
  EXPECT_EQ(format_value(12345), "12.3k");
  EXPECT_EQ(format_value(999999), "1M");
  EXPECT_EQ(format_value(2.5e12), "2.5T");
  EXPECT_EQ(format_value(3e-4), "3e-4");
  EXPECT_EQ(format_value(1.5e30), "1.5e30");
  EXPECT_EQ(format_value(0.4217, Unit::kShare), "42.2\u00a0%");
  EXPECT_EQ(format_value(0.0015, Unit::kSeconds), "1.5\u00a0ms");
  EXPECT_EQ(format_value(3723, Unit::kSeconds), "1:02:03");
  EXPECT_EQ(format_value(1.5 * 1024 * 1024 * 1024, Unit::kBytes), "1.5\u00a0GiB");
  EXPECT_EQ(format_value(1024 * 1024, Unit::kBytes), "1\u00a0MiB");
  EXPECT_EQ(format_value(NAN), "–");
  EXPECT_EQ(format_value(-INFINITY, Unit::kBytes), "–");
}

TEST(FormatCount, HasThousandsSeparators) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

TEST(Axis, LinearTicksAreRoundNumbersWithTheSameDigits) {
  EXPECT_EQ(labels(Axis(0.013, 0.096, {})), "0 0.02 0.04 0.06 0.08 0.10");
  EXPECT_EQ(labels(Axis(0, 100, {})), "0 20 40 60 80 100");
  EXPECT_EQ(labels(Axis(0, 48000, {})), "0 10k 20k 30k 40k 50k");
  EXPECT_EQ(labels(Axis(0, 3e-4, {})), "0 0.5e-4 1.0e-4 1.5e-4 2.0e-4 2.5e-4 3.0e-4");
  EXPECT_EQ(labels(Axis(-3, 2, {})), "-3 -2 -1 0 1 2");
  EXPECT_EQ(labels(Axis(0, 0.5, {.unit = Unit::kShare})), "0 10\u00a0% 20\u00a0% 30\u00a0% 40\u00a0% 50\u00a0%");
  EXPECT_EQ(labels(Axis(7, 93, {.round_ends = false})), "20 40 60 80");
  EXPECT_EQ(labels(Axis(0, 3, {.whole = true})), "0 1 2 3");
  EXPECT_EQ(labels(Axis(1, 1, {.whole = true})), "0 1 2");
  EXPECT_LE(Axis(9.2e18, 9.2e18, {.whole = true}).ticks().size(), 12u);  // adding 1 to it changes nothing
}

TEST(Axis, LogTicksGetCoarserAsTheRangeGrows) {
  EXPECT_EQ(labels(Axis(0.3, 0.7, {.logarithmic = true})), "0.3 0.4 0.5 0.6 0.7");
  EXPECT_EQ(labels(Axis(0.03, 0.9, {.logarithmic = true})), "0.02 0.05 0.1 0.2 0.5 1");
  EXPECT_EQ(labels(Axis(0.002, 900, {.logarithmic = true})), "0.001 0.01 0.1 1 10 100 1000");
  EXPECT_EQ(labels(Axis(1e-10, 1e10, {.logarithmic = true})), "1e-10 1e-6 0.01 100 1M 10G");
}

TEST(Axis, ValuesAreWhereTheTicksSay) {
  const Axis linear(0, 10, {}), log(1, 100, {.logarithmic = true});
  EXPECT_DOUBLE_EQ(linear.at(2.5), 0.25);
  EXPECT_DOUBLE_EQ(log.at(10), 0.5);
  EXPECT_TRUE(linear.shows(0));
  EXPECT_FALSE(log.shows(0));
  EXPECT_FALSE(log.shows(-1));
  EXPECT_FALSE(linear.shows(NAN));
}

TEST(Axis, AnyEndsGiveAFewFiniteTicks) {
  const double ends[] = {NAN,    INFINITY, -INFINITY, 0,     -0.0,  1, -1,         1 + 1e-15, 1e-300,
                         5e-324, 1e300,    -1e300,    1e308, 1e-30, 7, 1e6 + 0.01, 1e6};
  for (const double low : ends) {
    for (const double high : ends) {
      for (const bool logarithmic : {false, true}) {
        for (const bool round_ends : {false, true}) {
          const Axis axis(low, high, {.logarithmic = logarithmic, .round_ends = round_ends});
          EXPECT_LE(axis.ticks().size(), 16u) << low << " " << high << " " << logarithmic;
          EXPECT_GE(axis.ticks().size(), 1u) << low << " " << high << " " << logarithmic;
          for (const Tick& tick : axis.ticks()) {
            EXPECT_TRUE(tick.at >= 0 && tick.at <= 1) << low << " " << high;
            EXPECT_LE(tick.label.size(), 20u) << tick.label;
          }
          for (const double value : {low, high}) {
            EXPECT_TRUE(!axis.shows(value) || (axis.at(value) >= 0 && axis.at(value) <= 1));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reel::report
