// The one list in which everything that runs can be written down.
//
// A Work says what is done (work.h); a Record adds when and for how long. The tape writes compute down as it runs it,
// the optimizer its passes, comm its messages and waits; ghosts write down what they would have done (seconds = 0).
// The profiler, the benches and the figures of a run read this list.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "reel/base/timer.h"
#include "reel/base/work.h"

namespace reel {

struct Record {
  Work work;
  double start = 0;  // seconds since the recorder was made or cleared
  double seconds = 0;
};

// Records in the order in which record() was called, which for nested work is the order of the ends.
//
// Belongs to one thread: the one that drives the model (runs the tape and calls comm), which is the first to record.
// The workers of the thread team never record; a record from another thread is a bug and aborts. No locks, so recording
// costs an append. Read it from any thread once recording has stopped.
class Recorder {
 public:
  double now() const { return clock_.seconds(); }  // the time base of `start`
  void record(Work work, double start, double seconds);
  void clear();  // forgets everything, restarts the time, and lets another thread record

  const std::vector<Record>& records() const { return records_; }

 private:
  Timer clock_;
  std::vector<Record> records_;
  std::thread::id owner_;
};

// Runs f, and writes it down as `work` where there is a recorder.
template <class F>
void run_recorded(Recorder* recorder, const Work& work, F&& f) {
  if (recorder == nullptr) return f();
  const double start = recorder->now();
  f();
  recorder->record(work, start, recorder->now() - start);
}

struct Total {
  std::string_view name;
  std::int64_t count = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// All records of work that `wanted` says yes to, together (without a name), or by their display name, the longest
// first.
using Wanted = std::function<bool(const Work&)>;
Total total_of(std::span<const Record> records, const Wanted& wanted);
std::vector<Total> totals_by_name(std::span<const Record> records, const Wanted& wanted);

}  // namespace reel
