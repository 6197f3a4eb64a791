// Thousands of jobs from a CSV file, one a row: columns named like the keys of job.toml are read, an empty cell is the
// key's default, columns without a dot are carried along. The results follow as columns, in the order of the rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reel/files/csv.h"
#include "reel/sim/simulate.h"

namespace reel::sim {

// The results of a job under their names, as in JSON and in tables: step_seconds, memory_gib_peak, breakdown_tensor,
// ...
std::vector<std::pair<std::string, double>> figures(const Result& result);

// Job of a row; Error: file, line and key.
Job job_of_row(const Csv& csv, const std::string& file, std::size_t row, const Job& defaults);

// Simulates all rows; the text of the resulting table.
std::string simulate_table(const std::string& file, const cost::Cluster& cluster, const Options& options,
                           const std::function<void(std::size_t done, std::size_t all)>& progress);

}  // namespace reel::sim
