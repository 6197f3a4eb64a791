#include "base/timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace reel {
namespace {

void wait(double milliseconds) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds)); }

TEST(BestInTurn, GoesOnWhileItFindsBetterTimesAndNoLonger) {
  int calls = 0, steady_calls = 0;
  // Faster from call to call until the fifth; in turn with one that never changes.
  const auto best = best_in_turn({[&] { wait(calls < 5 ? 60 - 10 * calls++ : (++calls, 20)); },
                                  [&] {
                                    wait(20);
                                    ++steady_calls;
                                  }},
                                 100, 0);
  EXPECT_GE(calls, 6);
  EXPECT_LT(calls, 50);
  EXPECT_EQ(calls, steady_calls);
  EXPECT_GE(best[0], 0.02);
  EXPECT_LT(best[0], 0.06);
}

TEST(BestInTurn, StopsAtTheMostRounds) {
  int calls = 0;
  best_in_turn({[&] { wait(100 - 10 * calls++); }}, 4, 0);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace reel
