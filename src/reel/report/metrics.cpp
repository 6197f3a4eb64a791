#include "reel/report/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/utf8.h"

namespace reel::report {

namespace {

constexpr std::string_view kStep = "step";

bool is_name(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' || c == '\\') return false;
  }
  return !text.empty() && find_invalid_utf8(text) == text.npos;
}

// Takes one line apart. Only what the writer writes is understood, with any spacing: names without escapes, numbers
// and null.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  std::optional<MetricRow> row() {
    MetricRow row;
    bool has_step = false;
    if (!take('{')) return {};
    do {
      const std::optional<std::string_view> name = string();
      if (!name || !take(':')) return {};
      if (*name == kStep) {
        has_step = number(row.step);
        if (!has_step) return {};
      } else {
        double value = std::numeric_limits<double>::quiet_NaN();
        if (!null() && !number(value)) return {};
        row.values.insert_or_assign(std::string(*name), value);
      }
    } while (take(','));
    if (!take('}')) return {};
    skip_spaces();
    return has_step && text_.empty() ? std::optional(std::move(row)) : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t' || text_[0] == '\r')) text_.remove_prefix(1);
  }

  bool take(char c) {
    skip_spaces();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<std::string_view> string() {
    if (!take('"')) return {};
    const std::string_view name = text_.substr(0, text_.find('"'));
    if (name.size() == text_.size() || !is_name(name)) return {};
    text_.remove_prefix(name.size() + 1);
    return name;
  }

  bool null() {
    skip_spaces();
    if (!text_.starts_with("null")) return false;
    text_.remove_prefix(4);
    return true;
  }

  // A number that is too large to be read is no number; neither are the words that from_chars takes for NaN.
  template <class Number>
  bool number(Number& value) {
    skip_spaces();
    const std::size_t sign = text_.starts_with('-') ? 1 : 0;
    if (sign == text_.size() || text_[sign] < '0' || text_[sign] > '9') return false;
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (failure != std::errc()) return false;
    text_.remove_prefix(sized(end - text_.data()));
    return true;
  }

  std::string_view text_;
};

// Calls visit(line without its line feed) for each line that is not blank.
void for_each_line(std::string_view text, const auto& visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != line.npos) visit(line);
  }
}

}  // namespace

MetricsFile MetricsFile::open(const std::string& path, std::int64_t resume_after_step) {
  std::int64_t last_step = -1;
  if (std::filesystem::exists(path)) {
    const std::string before = read_file(path);
    std::string kept;
    for_each_line(before, [&](std::string_view line) {
      const std::optional<MetricRow> row = Line(line).row();
      if (!row || row->step > resume_after_step) return;
      kept += line;
      kept += '\n';
      last_step = std::max(last_step, row->step);
    });
    if (kept != before) write_file_atomically(path, kept);
  }
  return MetricsFile(path, last_step);
}

void MetricsFile::write(std::int64_t step, std::span<const Metric> metrics) {
  REEL_CHECK(step >= last_step_);
  last_step_ = step;
  std::string line = fmt::format("{{\"{}\":{}", kStep, step);
  for (const Metric& metric : metrics) {
    REEL_CHECK(is_name(metric.name) && metric.name != kStep);
    fmt::format_to(std::back_inserter(line), ",\"{}\":", metric.name);
    if (std::isfinite(metric.value)) {
      fmt::format_to(std::back_inserter(line), "{}", metric.value);
    } else {
      line += "null";
    }
  }
  line += "}\n";
  file_.write(line);
}

double MetricRow::value(std::string_view name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

Metrics read_metrics(const std::string& path) { return parse_metrics(read_file(path)); }

Metrics parse_metrics(std::string_view text) {
  Metrics metrics;
  for_each_line(text, [&](std::string_view line) {
    std::optional<MetricRow> row = Line(line).row();
    if (!row) {
      ++metrics.skipped;
    } else if (!metrics.rows.empty() && metrics.rows.back().step == row->step) {
      for (const auto& [name, value] : row->values) metrics.rows.back().values.insert_or_assign(name, value);
    } else {
      metrics.rows.push_back(std::move(*row));
    }
  });
  return metrics;
}

}  // namespace reel::report
