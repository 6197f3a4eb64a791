#include "reel/sim/table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/error.h"
#include "reel/files/nearest.h"
#include "reel/files/toml.h"

namespace reel::sim {

namespace {

constexpr double kGiB = 1 << 30;

std::vector<std::string> known_keys() {
  Settings settings;
  Job job;
  visit(settings, job);
  std::vector<std::string> keys;
  for (const auto& key : settings.keys()) {
    if (key.path.find('.') != std::string::npos) keys.push_back(key.path);
  }
  return keys;
}

// Columns that a job cannot do without, or that say nothing: both are mistakes of the whole table.
void check_columns(const Csv& csv, const std::string& file) {
  const std::vector<std::string> keys = known_keys();
  for (std::size_t c = 0; c < csv.columns().size(); ++c) {
    const std::string& column = csv.columns()[c];
    const auto refuse = [&](const std::string& hint) {
      throw Error(fmt::format("{}:1:{}: unknown key '{}'", file, c + 1, column), hint);
    };
    if (column.find('.') != std::string::npos) {
      if (std::find(keys.begin(), keys.end(), column) == keys.end()) refuse(nearest_hint(column, keys, "keys"));
      continue;
    }
    for (const std::string& key : keys) {
      if (key.substr(key.find('.') + 1) == column) refuse(fmt::format("did you mean '{}'?", key));
    }
  }
  Result any;
  any.price = Price{};
  for (const auto& [name, value] : figures(any)) {
    if (csv.has(name))
      throw Error(fmt::format("{}:1: '{}' is a result", file, name), "rename the column, or leave it out");
  }
  for (const char* needed : {"model.hidden", "model.layers"}) {
    if (!csv.has(needed)) {
      throw Error(fmt::format("{}:1: there is no column '{}'", file, needed), "the model's size has no default");
    }
  }
}

// A value as TOML: numbers, true and false, lists and quoted text as they are, everything else becomes a string.
std::string toml_value(const std::string& cell) {
  const bool list = cell.front() == '[' || cell.front() == '"';
  const bool word = cell == "true" || cell == "false";
  if (list || word) return cell;
  if (cell == "True" || cell == "TRUE") return "true";
  if (cell == "False" || cell == "FALSE") return "false";
  char* end = nullptr;
  const double number = std::strtod(cell.c_str(), &end);
  if (end == cell.c_str() + cell.size()) {
    // spreadsheets write whole numbers as 8.0
    if (std::abs(number) < 1e15 && number == std::floor(number) &&
        cell.find_first_not_of("+-0123456789.") == std::string::npos)
      return fmt::format("{}", static_cast<std::int64_t>(number));
    return cell;
  }
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::vector<std::pair<std::string, double>> figures(const Result& r) {
  std::vector<std::pair<std::string, double>> result = {
      {"step_seconds", r.step_seconds},
      {"tokens_per_second_per_device", r.tokens_per_second_per_device},
      {"model_flops_utilisation", r.model_flops_utilisation},
      {"memory_gib", r.memory.peak() / kGiB},
      {"memory_gib_weights", r.memory.weights / kGiB},
      {"memory_gib_gradients", r.memory.gradients / kGiB},
      {"memory_gib_optimizer", r.memory.optimizer / kGiB},
      {"memory_gib_activations", r.memory.activations / kGiB},
      {"memory_gib_peak", r.memory.peak() / kGiB},
  };
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    result.emplace_back(fmt::format("breakdown_{}", category_name(category)), r.breakdown_seconds(category));
  }
  result.emplace_back("fits", r.fits ? 1 : 0);
  result.emplace_back("extrapolated", r.extrapolated);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  result.emplace_back("error_band", r.error_band.value_or(kNone));
  result.emplace_back("error_band_guess", r.error_guess > 0 ? r.error_guess : kNone);
  if (r.price) {
    result.emplace_back("price_step", r.price->step);
    result.emplace_back("price_run", r.price->run);
    result.emplace_back("price_billion_tokens", r.price->billion_tokens);
  }
  result.emplace_back("simulate_seconds", r.simulate_seconds);
  return result;
}

// As TOML with one key a line, so that an error names file, line and column: "jobs.csv:14:3".
Job job_of_row(const Csv& csv, const std::string& file, std::size_t row, const Job& defaults) {
  std::string text;
  for (std::size_t c = 0; c < csv.columns().size(); ++c) {
    const std::string& cell = csv.text(row, c);
    const bool key = csv.columns()[c].find('.') != std::string::npos;
    if (key && cell.find_first_of("\r\n") != std::string::npos)
      throw Error(fmt::format("{}:{}: {} has a line end", file, csv.line(row), csv.columns()[c]), "correct the cell");
    if (key && cell.find_first_not_of(" \t") != std::string::npos) text += csv.columns()[c] + " = " + toml_value(cell);
    text += '\n';
  }
  return read_job(Toml::parse(text, fmt::format("{}:{}", file, csv.line(row))), defaults);
}

std::string simulate_table(const std::string& file, const cost::Cluster& cluster, const Options& options,
                           const std::function<void(std::size_t, std::size_t)>& progress) {
  const Csv csv = Csv::load(file);
  check_columns(csv, file);
  std::vector<std::string> columns = csv.columns();
  Result any;
  if (options.per_device_hour > 0) any.price = Price{};
  for (const auto& [name, value] : figures(any)) columns.push_back(name);
  CsvWriter writer(columns);
  const auto simulate_row = [&](const Job& job, const std::string& where) {
    try {
      return simulate(job, cluster, options);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", where, error.what()), error.hint());
    }
  };
  const Job given = defaults(cluster);
  std::vector<Job> jobs;  // all are read before the first is simulated, so that a mistake is told at once
  jobs.reserve(csv.rows());
  for (std::size_t row = 0; row < csv.rows(); ++row) jobs.push_back(job_of_row(csv, file, row, given));
  std::vector<std::string> cells;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    progress(row, csv.rows());
    cells.clear();
    for (std::size_t c = 0; c < csv.columns().size(); ++c) cells.push_back(csv.text(row, c));
    for (const auto& [name, value] : figures(simulate_row(jobs[row], fmt::format("{}:{}", file, csv.line(row))))) {
      cells.push_back(name == "fits"      ? (value != 0 ? "true" : "false")
                      : std::isnan(value) ? ""
                                          : fmt::format("{}", value));
    }
    writer.add_row(cells);
  }
  progress(csv.rows(), csv.rows());
  return writer.text();
}

}  // namespace reel::sim
