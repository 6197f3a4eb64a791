// The groups that the plan of a run (`parallel.plan`, --parallel; layout/degrees.h) makes of its ranks.
//
// The ranks of a plan work on the same clips: the sequence group. The number of ranks divided by the ranks of the plan
// is the data-parallel degree: sequence groups work on different clips. For ulysses=2,ring=2 and 8 ranks (others:
// layout/numbering.h):
//
//   rank       0  1 | 2  3   4  5 | 6  7
//   sequence   ───────────   ───────────     same clips
//   ulysses    ────   ────   ────   ────     same tokens in attention, different heads
//   ring       0 and 2, 1 and 3, ...         same heads, different tokens
//   data       0 and 4, 1 and 5, ...         same place in the plan, different clips
#pragma once

#include <memory>

#include "reel/comm/comm.h"
#include "reel/layout/degrees.h"

namespace reel::parallel {

class Team {
 public:
  // An Error where a plan is not built for runs (gather, auto), or does not divide the ranks: which numbers would work.
  // `world` outlives it.
  Team(comm::Comm& world, const layout::Degrees& plan);
  static void check(const layout::Degrees& plan);  // the first of these Errors

  const layout::Degrees& plan() const { return plan_; }
  // All ranks, group by group and place by place: the first ranks are those of the first sequence group.
  comm::Comm& world() { return *world_; }
  comm::Comm& sequence() { return *sequence_; }
  comm::Comm& data() { return *data_; }
  comm::Comm& ulysses() { return *ulysses_; }
  comm::Comm& ring() { return *ring_; }

 private:
  layout::Degrees plan_;
  std::unique_ptr<comm::Comm> world_, sequence_, data_, ulysses_, ring_;
};

}  // namespace reel::parallel
