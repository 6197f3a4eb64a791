// What the tests of this room share: clusters, and the figures that others published.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "reel/base/error.h"
#include "reel/cost/cluster.h"
#include "reel/files/csv.h"
#include "reel/files/toml.h"

namespace reel::cost {

// A cluster that comes with reel.
inline Cluster cluster(const std::string& name) { return load_cluster(REEL_SOURCE_DIR "/clusters/" + name + ".toml"); }

inline Csv published_figures() { return Csv::load(REEL_SOURCE_DIR "/tests/published.csv"); }

// A row of tests/published.csv. `what` describes the measured thing by the keys of a job or the columns of the tables
// that `reel simulate` reads.
struct Published {
  Toml what;
  double value = 0;
};

// The rows of a table, whose values are in `unit`.
inline std::vector<Published> published(const std::string& table, const std::string& unit) {
  const Csv csv = published_figures();
  std::vector<Published> rows;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (csv.text(row, "table") != table || csv.text(row, "unit") != unit) continue;
    Published figure;
    std::istringstream words(csv.text(row, "what"));
    for (std::string word; words >> word;) figure.what.set(word);
    figure.value = csv.number(row, "value");
    rows.push_back(std::move(figure));
  }
  if (rows.empty()) throw Error(fmt::format("tests/published.csv has no table {} in {}", table, unit));
  return rows;
}

}  // namespace reel::cost
