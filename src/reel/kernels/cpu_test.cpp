#include "reel/kernels/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "reel/base/error.h"
#include "reel/kernels/peak.h"

namespace reel::kernels {
namespace {

TEST(Cpu, EveryAvailableTargetCanBeForcedAndOthersAreRefused) {
  const std::string before = target();
  ASSERT_FALSE(available_targets().empty());
  for (const std::string& name : available_targets()) {
    set_target(name);
    EXPECT_EQ(target(), name);
    EXPECT_EQ(vector_floats(), name == "avx512" ? 16 : name == "avx2" ? 8 : 4);
  }
  set_target(before);
  EXPECT_THROW(set_target("mmx"), Error);
  EXPECT_EQ(target(), before);
}

// Every kernel test runs on every available target. What this machine lacks is said here, once.
TEST(Cpu, EveryTargetOfThisArchitectureIsTested) {
#if defined(__x86_64__)
  std::string missing;
  const auto have = available_targets();
  for (const char* name : {"avx512", "avx2", "sse4"}) {
    if (std::find(have.begin(), have.end(), name) == have.end()) missing += std::string(" ") + name;
  }
  if (!missing.empty()) GTEST_SKIP() << "not available, so not tested:" << missing;
#endif
}

TEST(Cpu, TheEnvironmentChoosesTheTarget) {
  const char* forced = std::getenv("REEL_CPU");
  if (forced == nullptr || *forced == '\0') GTEST_SKIP() << "REEL_CPU is not set";
  EXPECT_EQ(target(), forced);
}

TEST(Cpu, ProbingForTilesDoesNotKillTheProgram) { EXPECT_EQ(amx_works(), amx_works()); }

TEST(Peak, RatesAreOfThisWorld) {
  Threads threads(1);
  EXPECT_GT(peak_flops(threads, 0.02), 1e8);
  EXPECT_GT(bandwidth(Access::kRead, 16 << 10, threads, 0.01), 1e8);
  EXPECT_GT(bandwidth(Access::kCopy, 1 << 20, threads, 0.01), 1e7);
}

}  // namespace
}  // namespace reel::kernels
