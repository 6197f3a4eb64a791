#include "reel/base/record.h"

#include <gtest/gtest.h>

#include <thread>

namespace reel {
namespace {

TEST(Recorder, KeepsTheOrderAndTheTimes) {
  Recorder recorder;
  recorder.record({"gemm", 100, 10, 3, Phase::kForward}, 0.5, 0.25);
  recorder.record({"all_to_all_v", 0, 64, 3, Phase::kForward, "ulysses"}, 0.75, 0.125);
  ASSERT_EQ(recorder.records().size(), 2u);
  EXPECT_EQ(recorder.records()[0].operation.name, "gemm");
  EXPECT_EQ(recorder.records()[0].operation.layer, 3);
  EXPECT_EQ(recorder.records()[0].start, 0.5);
  EXPECT_EQ(recorder.records()[1].operation.group, "ulysses");
  EXPECT_EQ(recorder.records()[1].seconds, 0.125);
}

TEST(Recorder, TotalsAddUpByNameLongestFirst) {
  Recorder recorder;
  recorder.record({"norm", 1, 2}, 0, 0.5);
  recorder.record({"gemm", 100, 10}, 0, 1);
  recorder.record({"gemm", 50, 5, 7, Phase::kBackward}, 0, 2);
  const std::vector<Total> totals = recorder.totals();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].name, "gemm");
  EXPECT_EQ(totals[0].count, 2);
  EXPECT_EQ(totals[0].seconds, 3);
  EXPECT_EQ(totals[0].flops, 150);
  EXPECT_EQ(totals[0].bytes, 15);
  EXPECT_EQ(totals[1].name, "norm");
}

TEST(Recorder, TimeRunsFromTheLastClear) {
  Recorder recorder;
  const double before = recorder.now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(recorder.now() - before, 0.02);
  recorder.record({"gemm"}, before, 0);
  const double late = recorder.now();
  recorder.clear();
  EXPECT_TRUE(recorder.records().empty());
  EXPECT_TRUE(recorder.totals().empty());
  EXPECT_LT(recorder.now(), late);
}

TEST(Recorder, ClearLetsAnotherThreadRecord) {
  Recorder recorder;
  recorder.record({"gemm"}, 0, 0);
  recorder.clear();
  std::thread([&] { recorder.record({"norm"}, 0, 0); }).join();
  EXPECT_EQ(recorder.records().size(), 1u);
}

TEST(RecorderDeathTest, ARecordFromASecondThreadAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Recorder recorder;
  recorder.record({"gemm"}, 0, 0);
  EXPECT_DEATH(std::thread([&] { recorder.record({"norm"}, 0, 0); }).join(), "owner_ == thread");
}

}  // namespace
}  // namespace reel
