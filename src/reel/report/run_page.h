// RUN/report.html: one training run on one page.
//
// Every part may be missing: what a run did not measure is not shown, and a run of one step, without samples, without
// validation, full of NaN or of 100,000 steps gives a page that looks right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reel/report/animation.h"
#include "reel/report/html.h"
#include "reel/report/metrics.h"
#include "reel/report/page.h"
#include "reel/report/sparsity_page.h"

namespace reel::report {

// The names that metrics.jsonl and the page agree on. Other metrics get a chart of their own under their name.
namespace metric {
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kValidationLoss = "validation_loss";
inline constexpr const char* kLearningRate = "learning_rate";
inline constexpr const char* kGradientNorm = "gradient_norm";
inline constexpr const char* kTokensPerSecond = "tokens_per_second";
inline constexpr const char* kShareOfPeak = "share_of_peak";     // 0 to 1
inline constexpr const char* kKeptKeys = "kept_keys";            // share of query-key pairs that attention looked at
inline constexpr const char* kSparseHeads = "sparse_heads";      // share of heads
inline constexpr const char* kFallbacks = "sparsity_fallbacks";  // layers that went dense for a pass, so far
}  // namespace metric

struct Sample {
  std::int64_t step = 0;
  bool real = false;  // a clip of the data to compare with; its step does not matter
  ClipStrip clip;
};

struct MemoryPart {
  std::string name;  // "weights", "optimizer", "activations"
  double bytes = 0;
};

struct RunSummary {
  std::string title;
  std::string subtitle;
  std::int64_t planned_steps = 0;  // 0: not known
  double wall_seconds = 0;         // 0: not known
  std::vector<Fact> model;         // family, parameters, tokens, ...
  std::vector<Fact> machine;
  std::string configuration;  // TOML, as the run read it
  std::vector<MetricRow> rows;
  double peak_memory = 0;          // bytes; 0: not known
  std::vector<MemoryPart> memory;  // what of it is known by name
  std::vector<Sample> samples;     // in any order
  std::int64_t skipped_steps = 0;  // whose gradients were not finite
  std::vector<std::string> warnings;
  std::optional<SparsitySummary> sparsity;  // where attention was sparse
};

std::string run_page(const RunSummary& run);
void write_run_page(const RunSummary& run, const std::string& path);  // atomically

}  // namespace reel::report
