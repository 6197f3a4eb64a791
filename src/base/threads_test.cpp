#include "base/threads.h"

#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <stdexcept>

#include "base/error.h"

namespace reel {
namespace {

TEST(Threads, EveryChunkRunsOnce) {
  for (int count : {1, 2, 5}) {
    Threads threads(count);
    for (int chunks : {0, 1, 2, 7, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(chunks));
      threads.run(chunks, [&](std::int64_t chunk, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, count);
        ++seen[static_cast<std::size_t>(chunk)];
      });
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), chunks);
      for (int times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Threads, ManyShortRunsDoNotHangOrMix) {
  Threads threads(3);
  std::int64_t sum = 0;
  for (int run = 0; run < 5000; ++run) {
    std::vector<std::int64_t> part(4);
    threads.run(4, [&](std::int64_t chunk, int) { part[static_cast<std::size_t>(chunk)] = run + chunk; });
    sum += std::accumulate(part.begin(), part.end(), std::int64_t{0});
  }
  EXPECT_EQ(sum, std::int64_t{5000} * 4999 / 2 * 4 + 5000 * 6);
}

// A team that looked for work without end would take all of the 200 ms on every core.
TEST(Threads, IdleThreadsSleep) {
  Threads threads(default_threads());
  threads.run(threads.count(), [](std::int64_t, int) {});
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.05);
}

TEST(Threads, AnExceptionReachesTheCallerAndTheTeamGoesOn) {
  Threads threads(2);
  EXPECT_THROW(threads.run(100,
                           [](std::int64_t chunk, int) {
                             if (chunk == 17) throw std::runtime_error("seventeen");
                           }),
               std::runtime_error);
  std::atomic<int> done{0};
  threads.run(10, [&](std::int64_t, int) { ++done; });
  EXPECT_EQ(done, 10);
}

// Of this thread, which alone may poll.
void count_polls(Threads& threads, int& polls) {
  threads.set_poll([&polls, caller = std::this_thread::get_id()] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++polls;
  });
}

TEST(Threads, PollIsCalledByTheCallerBetweenChunksAndWhileWaiting) {
  Threads threads(2);
  int polls = 0;
  count_polls(threads, polls);
  threads.run(2, [](std::int64_t, int thread) {
    std::this_thread::sleep_for(std::chrono::milliseconds(thread == 0 ? 1 : 30));
  });
  EXPECT_GE(polls, 2);
}

TEST(Threads, ALongChunkPollsForTheCallerAlone) {
  Threads threads(2);
  int polls = 0;
  count_polls(threads, polls);
  threads.run(1, [&](std::int64_t, int thread) {
    for (int i = 0; i < 10; ++i) threads.poll(thread);
    EXPECT_EQ(polls, thread == 0 ? 10 : polls);
  });
}

TEST(Threads, RunInsideWorkRunsInline) {
  Threads threads(2);
  std::atomic<int> done{0};
  threads.run(4, [&](std::int64_t, int outer) {
    threads.run(3, [&](std::int64_t, int inner) {
      EXPECT_EQ(inner, outer);
      ++done;
    });
  });
  EXPECT_EQ(done, 12);
}

TEST(Threads, ImpossibleCountsAreRefused) {
  EXPECT_THROW(Threads(0), Error);
  EXPECT_THROW(Threads(-3), Error);
}

}  // namespace
}  // namespace reel
