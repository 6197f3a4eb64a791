// The one list in which everything that runs can be written down.
//
// An Operation says what is done; a Record adds when and for how long. The tape writes compute down as it runs it, comm
// its messages and waits, ghosts write down what they would have done (seconds = 0, or what a device would take); the
// profiler, the simulator and the reports all read the same list.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "reel/base/timer.h"

namespace reel {

enum class Phase { kForward, kBackward, kOptimizer, kOther };

const char* phase_name(Phase phase);  // "forward", "backward", "optimizer", "other"

struct Operation {
  std::string name = {};  // the operation, not the instance: "attention", "all_to_all_v"
  double flops = 0;       // a multiply-add counts two
  double bytes = 0;       // compute: read and written in memory; communication: sent by this rank
  int layer = -1;         // -1: belongs to no layer
  Phase phase = Phase::kOther;
  std::string group = {};  // communication: who takes part, "ulysses" or "ranks 0-3"; empty for compute
};

struct Record {
  Operation operation;
  double start = 0;  // seconds since the recorder was made or cleared
  double seconds = 0;
};

struct Total {
  std::string name;
  std::int64_t count = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// Records in the order in which record() was called, which for nested operations is the order of their ends.
//
// Belongs to one thread: the one that drives the model (runs the tape and calls comm), which is the first to record.
// The workers of the thread team never record; a record from another thread is a bug and aborts. No locks, so recording
// costs an append. Read it from any thread once recording has stopped.
class Recorder {
 public:
  double now() const { return clock_.seconds(); }  // the time base of `start`
  void record(Operation operation, double start, double seconds);
  void clear();  // forgets everything, restarts the time, and lets another thread record

  const std::vector<Record>& records() const { return records_; }
  std::vector<Total> totals() const;  // by name, the longest first

 private:
  Timer clock_;
  std::vector<Record> records_;
  std::thread::id owner_;
};

}  // namespace reel
