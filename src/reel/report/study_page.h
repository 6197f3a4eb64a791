// The page of reel study: how sparse the heads of one layer are, who finds their keys, what that is worth.
//
// Shares are 0 to 1, NaN is "not known".
#pragma once

#include <string>
#include <vector>

#include "reel/report/page.h"
#include "reel/report/sparsity_page.h"

namespace reel::report {

struct StudySummary {
  struct Head {
    double query = 0, group = 0;                 // keys that carry the mass: of one query, and of a group's shared list
    double gaussian = 0, overlap = 0;            // sparsity/study.h
    std::vector<double> covered, recall, error;  // of lists of `size`, as `predictors`
    std::vector<std::vector<double>> carried;    // [predictors][shares]
    std::vector<double> block_covered, block_needed;  // as `blocks`
  };
  std::string title, subtitle;
  std::vector<Fact> headline;
  std::vector<std::string> notices;
  double mass = 0.9, size = 0.1;
  double break_even = 0;  // share of keys below which sparse attention is faster here
  std::vector<std::string> predictors;
  std::vector<double> shares;
  std::vector<int> blocks;
  std::vector<std::size_t> distances;  // columns of the map of distances, in tokens; up to 16
  std::vector<Head> heads;
  AttentionFigures figures;  // a part is a head
};

std::string study_page(const StudySummary& study);
void write_study_page(const StudySummary& study, const std::string& path);  // atomically

}  // namespace reel::report
