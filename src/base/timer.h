// Time measured on the steady clock, in seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace reel {

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Best wall time of work(): at least `runs` runs and `min_seconds` in all. The best, not the mean: neighbours on a
// shared machine only ever add time.
template <class Work>
double best_seconds(const Work& work, int runs = 3, double min_seconds = 0.3) {
  double best = std::numeric_limits<double>::infinity();
  const Timer total;
  for (int i = 0; i < runs || total.seconds() < min_seconds; ++i) {
    const Timer timer;
    work();
    best = std::min(best, timer.seconds());
  }
  return best;
}

}  // namespace reel
