// What the timeline runs for a class of ranks: its program's blocks in order, those merged where that is the same, and
// the groups of classes that it meets.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "reel/base/sized.h"
#include "reel/sim/fold.h"
#include "reel/sim/workload.h"

namespace reel::sim {

inline std::size_t at(Stream stream) { return sized(stream); }
inline std::size_t at(std::int32_t index) { return sized(index); }

// Groups with each class once. A channel has two ends, also where both are of one class.
struct Meetings {
  std::vector<std::int32_t> ends;      // of each meeting: how many have to arrive
  std::vector<std::int32_t> of_class;  // [classes][slots]; -1: none
  std::int32_t slots = 0;

  std::int32_t of(std::int32_t c, std::int32_t slot) const { return of_class[at(c) * at(slots) + at(slot)]; }
};
Meetings make_meetings(const Workload& workload, const Folding& folding);

// What a call takes for the groups of a class.
const CallCost& call_cost(const Workload& workload, const Folding& folding, std::int32_t c, const Task& task);
Picoseconds compute_time(const Task& task, double slow);

// A block prepared for running: which tasks a stream has, and how many of each stream were issued before each task.
struct Code {
  std::vector<Task> tasks;
  std::vector<std::array<std::int32_t, kStreams>> before;
  std::array<std::vector<std::int32_t>, kStreams> of_stream;
  std::int32_t source = -1;  // block of the program; -1: merged
  bool merged = false;       // its compute stream is one task, whose time is counted as `breakdown` says
  Breakdown breakdown{};
};

struct ScheduleStep {
  const Code* code = nullptr;
  std::int32_t micro_batch = -1;
  std::array<std::int32_t, kStreams> before{};  // tasks of each stream issued before
};

struct Schedule {
  std::vector<std::unique_ptr<Code>> codes;
  std::vector<ScheduleStep> steps;

  void add(const Code* code, std::int32_t micro_batch);
};

// Which calls may run beside the compute of a block: those on kData, from the block that issues them to the next task
// of the compute stream that waits for all of them. Blocks in between are never merged (timeline.h).
Schedule make_schedule(const Workload& workload, const Folding& folding, const Meetings& meetings, std::int32_t c,
                       bool merging);

}  // namespace reel::sim
