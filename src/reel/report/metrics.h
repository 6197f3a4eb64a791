// metrics.jsonl: what a run measured, one JSON object a line.
//
//   {"step":120,"loss":0.0713,"learning_rate":0.0003,"gradient_norm":null}
//
// A line is an object of numbers; the key "step" is a whole number and comes from the writer. Numbers are written with
// as many digits as it takes to read the same bits back. JSON has no NaN and no infinity: both become null, which keeps
// the name, and null is read as NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reel/files/file.h"

namespace reel::report {

struct Metric {
  std::string_view name;  // printable UTF-8 without quotes and backslashes
  double value;
};

class MetricsFile {
 public:
  // Opens the file of a run that continues after `resume_after_step` (-1: a new run). What the file holds up to that
  // step stays, byte for byte; later lines go, and so do lines that are no metrics, such as the half line of a run that
  // was killed. Afterwards no line is double or half. A file that is not there is made; the folder has to exist.
  static MetricsFile open(const std::string& path, std::int64_t resume_after_step);

  // One line, handed to the system at once: what was written survives the end of the process, though not a power cut.
  // Steps never go back. Several lines may have the same step (a validation loss that comes later).
  void write(std::int64_t step, std::span<const Metric> metrics);
  void write(std::int64_t step, std::initializer_list<Metric> metrics) {
    write(step, std::span(metrics.begin(), metrics.size()));
  }

 private:
  MetricsFile(const std::string& path, std::int64_t last_step) : file_(path), last_step_(last_step) {}

  AppendFile file_;
  std::int64_t last_step_;
};

struct MetricRow {
  std::int64_t step = 0;
  std::map<std::string, double, std::less<>> values;

  double value(std::string_view name) const;  // NaN where the row has none
};

struct Metrics {
  std::vector<MetricRow> rows;  // in the order of the file; neighbouring lines of one step are one row
  std::size_t skipped = 0;      // lines that are not metrics: torn or damaged
};

Metrics read_metrics(const std::string& path);
Metrics parse_metrics(std::string_view text);

}  // namespace reel::report
