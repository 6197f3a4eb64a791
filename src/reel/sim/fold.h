// Ranks that do the same at the same time, found once and simulated once.
//
// A class is a set of ranks with the same program, the same speed, and in every slot a group of the same variant whose
// members come from the same classes: the coarsest such partition, found by splitting classes until nothing changes
// (as when automata are minimised). Why folded times equal unfolded ones: a task starts when tasks of its own rank have
// ended and the members of its group have arrived. If up to some time all ranks of a class had the same history, then
// the last member of each of their groups arrives at the same time, because the groups have members of the same
// classes; so the next event is the same for all of them, too. What slows a call down is the other calls of its
// members, which are the same for all ranks of a class. A group may then be replaced by the set of its classes.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/sim/workload.h"

namespace reel::sim {

struct Folding {
  std::vector<std::int32_t> class_of;        // [ranks]
  std::vector<std::int32_t> representative;  // [classes], the lowest rank
  std::vector<std::int32_t> size;            // [classes], ranks
  bool merge = true;                         // blocks without outside partners may become one task (timeline.h)

  std::int32_t classes() const { return static_cast<std::int32_t>(representative.size()); }
};

Folding fold(const Workload& workload);
Folding unfolded(const Workload& workload);  // every rank is its own class, every task is run

}  // namespace reel::sim
