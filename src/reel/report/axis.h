// Numbers as people read them, and the axes of charts.
//
// Everything here is finite: what is not a finite number, or is beyond 1e300, is "missing" and has no place on an axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reel::report {

enum class Unit {
  kNumber,   // 0.0123, 12.3k, 3e-4
  kShare,    // 0.42 is 42 %
  kSeconds,  // 1.5 ms, 12 s, 1:02:03
  kBytes,    // 1.5 GiB
};

// Three or four significant digits; a dash for what is missing.
std::string format_value(double value, Unit unit = Unit::kNumber);
inline std::string share_text(double share) { return format_value(share, Unit::kShare); }
std::string format_count(std::int64_t count);  // 1,234,567

bool is_missing(double value);
bool is_missing_on_log_axis(double value);  // or not above 0

struct Tick {
  double at;  // share of the axis, 0 to 1
  std::string label;
};

class Axis {
 public:
  struct Options {
    Unit unit = Unit::kNumber;
    bool logarithmic = false;
    bool round_ends = true;  // move both ends outward to a tick
    bool whole = false;      // no ticks between whole numbers (steps, counts); not for log axes
    int ticks = 5;           // about so many
  };
  // From `low` to `high`; missing or equal ends, and ends that no log axis can have, give an axis all the same.
  Axis(double low, double high, const Options& options);

  bool shows(double value) const;  // has a place on this axis
  double at(double value) const;   // that place: 0 is the low end, 1 the high end; never outside
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double place(double value) const;

  bool logarithmic_;
  double begin_, length_;  // of the values, or of their logarithms
  std::vector<Tick> ticks_;
};

}  // namespace reel::report
