// What a training run tells whoever watches it. A listener prints, draws or records; the run itself prints nothing.
//
// In order: `started` once, `begun` once, `stepped` after every step, `skipped` right after it where the step changed
// nothing, `ended` once; `notice` at any time. A run that fails throws instead of calling `ended`.
//
// Rank 0 tells its listener all of this. The listeners of the other ranks get notices and are asked whether to stop.
// Everything is called by the thread that trains, except `notice`, which may also come from the thread that reads
// clips.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "reel/train/trainer.h"

namespace reel::train {

// The run is described and nothing has been made yet; whether it fits into memory is checked next.
struct Started {
  const RunConfig& config;
  const StepNeed& need;  // of one rank
  double available = 0;  // bytes of memory for one rank; 0 where the system does not say
  int ranks = 1;
  int ranks_of_clip = 1;  // how many ranks share each clip
  std::string plan;       // how they share it; "" where it is not cut
};

struct Stepped {
  std::int64_t step = 0, steps = 0;  // this one, and how many the run has
  StepReport report;
  double seconds = 0, tokens_per_second = 0, share_of_peak = 0;
  double validation = std::nan("");  // the last validation loss, if there is one
  bool sparse = false;               // report.kept says something
};

// The loss or a gradient was not finite, so the weights stayed as they were.
struct Skipped {
  std::int64_t step = 0;
  double loss = 0, gradient_norm = 0;
  std::int64_t in_row = 1;  // skipped steps without a good one in between, this one included
};

struct Ended {
  bool done = false;  // all steps; otherwise the run was asked to stop. Either way a checkpoint is there.
  std::int64_t step = 0, steps = 0;
  std::string folder;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void started(const Started&) {}
  virtual void begun(std::int64_t) {}  // everything is loaded; the steps done before, more than 0 in a resumed run
  virtual void stepped(const Stepped&) {}
  virtual void skipped(const Skipped&) {}
  virtual void notice(const std::string&) {}  // one line about something that the run works around
  virtual void ended(const Ended&) {}
  // Asked before the first step and after every step. One rank that says yes stops all of them after the same step.
  virtual bool stop() { return false; }
};

}  // namespace reel::train
