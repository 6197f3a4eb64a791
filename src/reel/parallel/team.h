// Which ranks do what: the plan of a run (`parallel.plan`, --parallel) and the groups it makes of the ranks.
//
//   "dsp=4"              switches between space and time (models with separate spatial and temporal attention)
//   "ulysses=2,ring=4"   heads over 2 ranks, keys around rings of 4; either may be left out
//
// The ranks of a plan work on the same clips: the sequence group, neighbouring ranks. The number of ranks divided by
// the degree of the plan is the data-parallel degree: sequence groups work on different clips. Ranks of a sequence
// group, for ulysses=2,ring=2 and 8 ranks:
//
//   rank       0  1 | 2  3   4  5 | 6  7
//   sequence   ───────────   ───────────     same clips
//   ulysses    ────   ────   ────   ────     same tokens in attention, different heads
//   ring       0 and 2, 1 and 3, ...         same heads, different tokens
//   data       0 and 4, 1 and 5, ...         same place in the plan, different clips
#pragma once

#include <memory>
#include <string>

#include "reel/comm/comm.h"

namespace reel::parallel {

struct Plan {
  int dsp = 1, ulysses = 1, ring = 1;
  int degree() const { return dsp * ulysses * ring; }
  std::string text() const;  // "" for one rank
};

// An Error says what is wrong with the text. "" is one rank.
Plan parse_plan(const std::string& text);

class Team {
 public:
  // An Error where the plan does not divide the ranks: which numbers would work. `world` outlives it.
  Team(comm::Comm& world, const Plan& plan);

  const Plan& plan() const { return plan_; }
  comm::Comm& world() { return world_; }
  comm::Comm& sequence() { return *sequence_; }
  comm::Comm& data() { return *data_; }
  comm::Comm& ulysses() { return *ulysses_; }
  comm::Comm& ring() { return *ring_; }

  // Ulysses also where every rank has its whole sequences, as systems do that do not tell space from time. Only a
  // comparison needs it.
  bool ulysses_everywhere = false;

 private:
  Plan plan_;
  comm::Comm& world_;
  std::unique_ptr<comm::Comm> sequence_, data_, ulysses_, ring_;
};

}  // namespace reel::parallel
