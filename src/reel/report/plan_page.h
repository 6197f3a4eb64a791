// Pages of `reel plan`: how a partition spreads attention over ranks, how long it lasts, what each strategy would take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/report/html.h"
#include "reel/report/page.h"

namespace reel::report {

// Who computes what: a line a head, ordered by group, a column a query group, the colour is the rank.
struct OwnerMap {
  std::string title, note;
  int rows = 0;                         // query groups
  std::vector<int> heads;               // top to bottom
  std::vector<int> group_of_line;       // Ulysses group of each
  std::vector<std::vector<int>> owner;  // [Ulysses group][query group]: rank
  int ranks = 1;
};
Html owner_map(const OwnerMap& map);

struct PlanPage {
  std::string name;  // of the file
  std::string subtitle;
  int ulysses = 1, ring = 1;
  double rho = 1, rho_no_barrier = 1, rho_contiguous = 1, rho_contiguous_no_barrier = 1;
  double moved_bytes = 0, moved_share = 0, plan_seconds = 0;
  std::string cost;                      // of a query group, in words
  int rows = 0, columns = 0, heads = 0;  // query groups, key blocks, heads
  std::vector<double> mask;              // [rows][columns]: share of the pairs that are computed, mean over heads
  std::vector<double> head_rows;         // [heads][rows]: share of the keys
  std::vector<double> work_before, work_after;  // of each rank, over the mean
  OwnerMap owners;
};
Page plan_page(const PlanPage& plan);

struct PlanSteps {
  struct Step {
    std::string name;
    double rho = 1, rho_kept = 1, rho_contiguous = 1;
    bool planned = false;
    double moved_bytes = 0, moved_share = 0;
  };
  std::string title, subtitle;
  double limit = 1.05;
  std::vector<Step> steps;
};
Page plan_steps_page(const PlanSteps& steps);

struct PlanStrategies {
  struct Row {
    std::string name;
    double rho = 1, rho_contiguous = 1, bytes = 0, memory = 0;
    double compute = 0, waiting = 0, heads = 0, rows = 0, keys = 0;  // seconds
    bool fits = true;
  };
  std::string title, subtitle;
  std::vector<Row> rows;                  // best first
  std::vector<std::string> explanations;  // why the first beats others
  std::vector<std::string> notices;
};
Page plan_strategies_page(const PlanStrategies& strategies);

}  // namespace reel::report
