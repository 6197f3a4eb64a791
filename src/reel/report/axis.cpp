#include "reel/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/progress.h"

namespace reel::report {

namespace {

constexpr double kLargestValue = 1e300;        // differences and products of two values stay finite
constexpr double kSmallest = 1e-280;           // and their quotients, too
constexpr std::string_view kSpace = "\u00a0";  // keeps number and unit on one line

// A value is shown as value / factor with the suffix behind it.
struct Scale {
  double factor;
  std::string suffix;
};

Scale scale_for(double largest, Unit unit) {
  const auto spaced = [](std::string_view name) { return std::string(kSpace).append(name); };
  switch (unit) {
    case Unit::kShare:
      return {0.01, spaced("%")};
    case Unit::kSeconds:
      if (largest >= 7200) return {3600, spaced("h")};
      if (largest >= 120) return {60, spaced("min")};
      if (largest >= 1 || largest == 0) return {1, spaced("s")};
      return largest >= 1e-3 ? Scale{1e-3, spaced("ms")} : Scale{1e-6, spaced("µs")};
    case Unit::kBytes: {
      double factor = 1;
      int name = 0;
      for (; largest >= 1024 * factor && name < 5; ++name) factor *= 1024;
      constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
      return {factor, spaced(kNames[name])};
    }
    case Unit::kNumber:
      break;
  }
  if (largest == 0 || (largest >= 1e-3 && largest < 1e4)) return {1, ""};
  if (largest >= 1e4 && largest < 1e15) {
    return largest < 1e6    ? Scale{1e3, "k"}
           : largest < 1e9  ? Scale{1e6, "M"}
           : largest < 1e12 ? Scale{1e9, "G"}
                            : Scale{1e12, "T"};
  }
  const int exponent = static_cast<int>(std::floor(std::log10(largest) + 1e-12));
  return {std::pow(10.0, exponent), fmt::format("e{}", exponent)};
}

std::string without_zeros(std::string text) {
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// The exponent of ten of the first digit.
int magnitude(double value) { return static_cast<int>(std::floor(std::log10(std::fabs(value)) + 1e-12)); }

double rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
}

// Ticks before they have a place: the ends may still move.
struct Mark {
  double value;
  std::string label;
};

std::vector<Mark> linear_marks(double& low, double& high, const Axis::Options& options) {
  const double size = std::max(std::fabs(low), std::fabs(high));
  if (high - low <= 1e-6 * size || size < kSmallest) {  // a constant: in the middle
    // Whole numbers get a margin of one or, beyond 2^53, where adding one changes nothing, of enough to change them.
    const double margin = size < kSmallest ? 1 : options.whole ? std::max(1.0, 1e-6 * size) : 0.1 * size;
    low -= margin;
    high += margin;
  }
  const Scale scale = scale_for(std::max(std::fabs(low), std::fabs(high)), options.unit);
  const double begin = low / scale.factor, end = high / scale.factor;
  const double rough = (end - begin) / options.ticks, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power * (rough / power < 1.4 ? 1 : rough / power < 3.2 ? 2 : rough / power < 7 ? 5 : 10);
  if (options.whole) step = std::max(step, 1 / scale.factor);
  constexpr double kSlack = 1e-6;  // of a step: an end that is a tick but for rounding
  double first = std::ceil(begin / step - kSlack), last = std::floor(end / step + kSlack);
  if (options.round_ends) {
    first = std::floor(begin / step + kSlack);
    last = std::ceil(end / step - kSlack);
    low = first * step * scale.factor;
    high = last * step * scale.factor;
  }
  const int decimals = std::clamp(-magnitude(step), 0, 12);
  std::vector<Mark> marks;
  for (double i = first; i <= last; ++i) {
    marks.push_back(
        {i * step * scale.factor, i == 0 ? "0" : fmt::format("{:.{}f}{}", i * step, decimals, scale.suffix)});
  }
  return marks;
}

std::vector<Mark> log_marks(double& low, double& high, const Axis::Options& options) {
  if (high / low < 1 + 1e-6) {
    low /= 2;
    high *= 2;
  }
  const double decades = std::log10(high) - std::log10(low);
  if (decades < 0.6) {  // less than a factor of four: the ticks of a linear axis
    double linear_low = low, linear_high = high;
    std::vector<Mark> marks = linear_marks(linear_low, linear_high, options);
    if (linear_low > 0) {
      low = linear_low;
      high = linear_high;
    }
    std::erase_if(marks, [&](const Mark& mark) { return mark.value < low * (1 - 1e-9); });
    return marks;
  }
  // 1, 2 and 5 of each decade while they are few, then each decade, then every so many.
  const bool fine = decades * 2 <= options.ticks;
  const int every = std::max(1, static_cast<int>(std::lround(decades / options.ticks)));
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  std::vector<double> values;
  for (int exponent = first; exponent <= last; exponent += fine ? 1 : every) {
    for (const int digit : {1, 2, 5}) {
      if (digit == 1 || fine) values.push_back(std::strtod(fmt::format("{}e{}", digit, exponent).c_str(), nullptr));
    }
  }
  if (options.round_ends) {  // to the nearest ticks outside
    const auto above_low = std::upper_bound(values.begin(), values.end(), low * (1 + 1e-9));
    const auto from_high = std::lower_bound(values.begin(), values.end(), high * (1 - 1e-9));
    if (above_low != values.begin()) low = *std::prev(above_low);
    if (from_high != values.end()) high = *from_high;
  }
  std::vector<Mark> marks;
  for (const double value : values) {
    if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
    marks.push_back({value, format_value(value, options.unit)});
  }
  return marks;
}

}  // namespace

bool is_missing(double value) { return !(std::fabs(value) <= kLargestValue); }

bool is_missing_on_log_axis(double value) { return is_missing(value) || value < kSmallest; }

std::string format_value(double value, Unit unit) {
  if (is_missing(value)) return "–";
  if (std::fabs(value) < kSmallest) value = 0;
  if (unit == Unit::kSeconds && value >= 120) return format_duration(value);
  const int digits = unit == Unit::kNumber && std::fabs(value) < 1e4 ? 4 : 3;
  if (unit == Unit::kNumber) value = rounded(value, digits);  // before the scale is chosen, or 999,999 becomes 1000k
  const Scale scale = scale_for(std::fabs(value), unit);
  const double shown = value / scale.factor;
  const int decimals = shown == 0 ? 0 : std::clamp(digits - 1 - magnitude(shown), 0, 9);
  return without_zeros(fmt::format("{:.{}f}", shown, decimals)) + scale.suffix;
}

std::string format_count(std::int64_t count) {
  std::string text = fmt::format("{}", count);
  for (std::size_t i = text.size(); i > (count < 0 ? 4u : 3u);) text.insert(i -= 3, ",");
  return text;
}

Axis::Axis(double low, double high, const Options& options) : logarithmic_(options.logarithmic) {
  if (!shows(low)) low = shows(high) ? high : 1;
  if (!shows(high)) high = low;
  if (low > high) std::swap(low, high);
  const std::vector<Mark> marks = logarithmic_ ? log_marks(low, high, options) : linear_marks(low, high, options);
  begin_ = logarithmic_ ? std::log10(low) : low;
  length_ = (logarithmic_ ? std::log10(high) : high) - begin_;
  for (const Mark& mark : marks) ticks_.push_back({place(mark.value), mark.label});
}

bool Axis::shows(double value) const { return !(logarithmic_ ? is_missing_on_log_axis(value) : is_missing(value)); }

double Axis::at(double value) const {
  REEL_CHECK(shows(value));
  return place(value);
}

double Axis::place(double value) const {
  return std::clamp(((logarithmic_ ? std::log10(value) : value) - begin_) / length_, 0.0, 1.0);
}

}  // namespace reel::report
