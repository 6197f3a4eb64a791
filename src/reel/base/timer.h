// Time measured on the steady clock, in seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

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

// The same for several works that are compared: they take turns, so that a slow moment of the machine hits all of them.
// In each round every work runs at least once, and for `min_seconds`. Three rounds or more: as long as a round still
// finds a time more than a hundredth better, up to `most_rounds`, since where neighbours come and go the first few
// rounds have seen no quiet moment of every work.
inline std::vector<double> best_in_turn(const std::vector<std::function<void()>>& works, int most_rounds,
                                        double min_seconds = 0.15) {
  std::vector<double> best(works.size(), std::numeric_limits<double>::infinity());
  bool better = true;
  for (int round = 0; round < most_rounds && (better || round < 3); ++round) {
    better = false;
    for (std::size_t i = 0; i < works.size(); ++i) {
      const double seconds = best_seconds(works[i], 1, min_seconds);
      better = better || seconds < 0.99 * best[i];
      best[i] = std::min(best[i], seconds);
    }
  }
  return best;
}

}  // namespace reel
