#include "reel/base/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace reel {
namespace {

// 160 ms, then half of the last time, but never less than 20: far more than what a busy machine adds.
void sleep_shorter_each_time(int& calls) {
  std::this_thread::sleep_for(std::chrono::milliseconds(std::max(20, 160 >> std::min(calls++, 10))));
}

TEST(BestInTurn, GoesOnWhileItFindsBetterTimesAndNoLonger) {
  int calls = 0;
  const auto best = best_in_turn({[&] { sleep_shorter_each_time(calls); }}, 1000, 0);
  EXPECT_GE(calls, 5);  // the fourth is the first of 20 ms, the fifth no better
  EXPECT_LT(calls, 500);
  EXPECT_GE(best[0], 0.02);
  EXPECT_LT(best[0], 0.16);
}

TEST(BestInTurn, StopsAtTheMostRounds) {
  int calls = 0;
  best_in_turn({[&] { sleep_shorter_each_time(calls); }}, 3, 0);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace reel
