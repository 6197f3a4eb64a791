#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "reel/base/error.h"
#include "reel/report/run_page.h"

namespace {

// The lines that MetricsFile would write.
std::string lines_of(const reel::report::Metrics& metrics) {
  std::string text;
  for (const reel::report::MetricRow& row : metrics.rows) {
    text += fmt::format("{{\"step\":{}", row.step);
    for (const auto& [name, value] : row.values) {
      text += fmt::format(",\"{}\":{}", name, std::isfinite(value) ? fmt::format("{}", value) : "null");
    }
    text += "}\n";
  }
  return text;
}

}  // namespace

// Any bytes are rows that can be written and read again, bit for bit, and give a page; what is not a row is counted.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reel::report::Metrics metrics = reel::report::parse_metrics({reinterpret_cast<const char*>(data), size});
  const std::string text = lines_of(metrics);
  const reel::report::Metrics again = reel::report::parse_metrics(text);
  if (again.skipped != 0 || again.rows.size() != metrics.rows.size() || lines_of(again) != text) __builtin_trap();
  if (metrics.rows.size() > 100) metrics.rows.resize(100);  // pages of more take longer, not other ways
  reel::report::run_page({.title = "fuzz", .rows = std::move(metrics.rows)});
  return 0;
}
