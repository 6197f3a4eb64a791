// Something that every head has, over training: a row a head, layer by layer, and a column a profile step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/report/html.h"

namespace reel::report {

struct HeadMap {
  std::string title, note;
  std::vector<std::int64_t> steps;  // of the columns
  int layers = 0, heads = 0;        // rows are layers * heads
  std::vector<double> values;       // [layers][heads][steps], shares; NaN: not known
  double most = 1;                  // end of the colour scale
};
Html head_map(const HeadMap& map);

}  // namespace reel::report
