#include "reel/base/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/base/testing.h"

// There where the program is linked with the sanitizer; tests themselves are compiled once for both.
extern "C" [[gnu::weak]] void __asan_init();  // NOLINT: its name

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

// Counts how often this thread polls; no other thread may.
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
  Threads threads(1);
  int polls = 0;
  count_polls(threads, polls);
  threads.run(1, [&](std::int64_t, int thread) {
    for (int i = 0; i < 10; ++i) threads.poll(thread);
    EXPECT_EQ(polls, 10);
    threads.poll(1);  // as a chunk on another thread would
    EXPECT_EQ(polls, 10);
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

TEST(Threads, ThreadsThatCannotBeStartedAreAnErrorAndNotAHang) {
  if (__asan_init != nullptr) GTEST_SKIP() << "the sanitizer itself takes terabytes of addresses";
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  // Root may start as many as it likes, but every thread needs a stack.
  const struct rlimit tight = {std::uint64_t{1} << 30, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const std::string message = message_of([] { const Threads threads(4096); });
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(message.find("of 4096 threads can be started"), std::string::npos) << message;
}

TEST(Threads, RanksShareTheCoresOfTheirLauncherOnce) {
  EXPECT_EQ(share_of_cores(32, 32, 1), 32);
  EXPECT_EQ(share_of_cores(32, 32, 4), 8);  // not bound
  EXPECT_EQ(share_of_cores(8, 32, 4), 8);   // bound to 8 cores each
  EXPECT_EQ(share_of_cores(16, 32, 4), 8);  // two ranks bound to a socket
  EXPECT_EQ(share_of_cores(2, 2, 4), 1);    // more ranks than cores
}

class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    if (launched().ranks > 1) GTEST_SKIP() << "started by mpirun";
  }
  static Launched with(const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    const Launched result = launched();
    for (const auto& [name, value] : environment) ::unsetenv(name.c_str());
    return result;
  }
};

TEST_F(Launcher, EnvironmentsOfTheThreeAreRead) {
  const Launched open_mpi =
      with({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(std::tuple(open_mpi.rank, open_mpi.ranks, open_mpi.on_host), std::tuple(3, 8, 4));
  const Launched mpich = with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(std::tuple(mpich.rank, mpich.ranks, mpich.on_host), std::tuple(1, 2, 2));
  const Launched slurm =
      with({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}});
  EXPECT_EQ(std::tuple(slurm.rank, slurm.ranks, slurm.on_host), std::tuple(5, 20, 8));
}

}  // namespace
}  // namespace reel
