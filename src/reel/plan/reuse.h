// One plan for many steps: masks change slowly from one denoising step to the next, and what moves once need not move
// again.
//
// The first step is planned wherever that helps. A plan is kept while rho under it stays at or below the limit. When it
// does not, the new plan begins with the present one and moves what it must to get well below the limit, so that it
// lasts; both are said in terms of the original order, so permutations never pile up.
#pragma once

#include <cstdint>
#include <optional>

#include "reel/plan/imbalance.h"
#include "reel/plan/planner.h"

namespace reel::plan {

class Reuse {
 public:
  struct Step {
    double rho = 1;       // of this step, under the plan that is now in force
    double rho_kept = 1;  // under the plan of the step before (the first step: contiguous)
    double rho_contiguous = 1;
    bool planned = false;  // a new plan was made
    Moved moved;           // by the change of plans; the first one: from contiguous
  };

  // options.present and options.target are this class's business. `limit` above 1.
  Reuse(const Options& options, double limit, std::int64_t head_dim, double element_bytes);

  Step next(const Counts& work);  // an Error where the work has another shape than the steps before
  const Partition& partition() const { return *partition_; }

 private:
  Options options_;
  double limit_;
  std::int64_t head_dim_;
  double element_bytes_;
  std::optional<Partition> partition_;
  std::int64_t heads_ = 0, rows_ = 0, columns_ = 0;
};

}  // namespace reel::plan
