#include "reel/base/record.h"

#include <gtest/gtest.h>

#include <thread>

namespace reel {
namespace {

const Work kProduct{work::Product{work::Form::kXWt, 2, 3, 4}, 3, Phase::kForward};
const Work kNorm{work::Sweep{"norm", 10, 4, 2}, 7, Phase::kBackward};

TEST(Recorder, KeepsTheOrderAndTheTimes) {
  Recorder recorder;
  recorder.record(kProduct, 0.5, 0.25);
  recorder.record({work::Exchange{work::Exchange::Kind::kAllToAll, "ulysses", nullptr, 64}}, 0.75, 0.125);
  ASSERT_EQ(recorder.records().size(), 2u);
  EXPECT_TRUE(is_product(recorder.records()[0].work));
  EXPECT_EQ(recorder.records()[0].work.layer, 3);
  EXPECT_EQ(recorder.records()[0].start, 0.5);
  EXPECT_EQ(std::get<work::Exchange>(recorder.records()[1].work.what).group, "ulysses");
  EXPECT_EQ(recorder.records()[1].seconds, 0.125);
}

TEST(Recorder, TotalsAddUpByNameLongestFirst) {
  Recorder recorder;
  recorder.record(kNorm, 0, 0.5);
  recorder.record(kProduct, 0, 1);
  recorder.record({work::Product{work::Form::kDytX, 5, 3, 4}}, 0, 2);
  const std::vector<Total> totals = totals_by_name(recorder.records(), [](const Work&) { return true; });
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].name, "linear");
  EXPECT_EQ(totals[0].count, 2);
  EXPECT_EQ(totals[0].seconds, 3);
  EXPECT_EQ(totals[0].flops, 48 + 120);
  EXPECT_EQ(totals[0].bytes, 4 * (8 + 12 + 6 + 20 + 12 + 15));
  EXPECT_EQ(totals[1].name, "norm");
  EXPECT_EQ(totals_by_name(recorder.records(), is_self_attention).size(), 0u);

  const Total products = total_of(recorder.records(), is_product);
  EXPECT_EQ(products.count, 2);
  EXPECT_EQ(products.seconds, 3);
  EXPECT_EQ(products.flops, 48 + 120);
}

TEST(Recorder, TimeRunsFromTheLastClear) {
  Recorder recorder;
  const double before = recorder.now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(recorder.now() - before, 0.02);
  recorder.record(kProduct, before, 0);
  const double late = recorder.now();
  recorder.clear();
  EXPECT_TRUE(recorder.records().empty());
  EXPECT_LT(recorder.now(), late);
}

TEST(Recorder, ClearLetsAnotherThreadRecord) {
  Recorder recorder;
  recorder.record(kProduct, 0, 0);
  recorder.clear();
  std::thread([&] { recorder.record(kNorm, 0, 0); }).join();
  EXPECT_EQ(recorder.records().size(), 1u);
}

TEST(RecorderDeathTest, ARecordFromASecondThreadAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Recorder recorder;
  recorder.record(kProduct, 0, 0);
  EXPECT_DEATH(std::thread([&] { recorder.record(kNorm, 0, 0); }).join(), "owner_ == thread");
}

TEST(RunRecorded, RunsOnceWithAndWithoutARecorder) {
  int runs = 0;
  run_recorded(nullptr, kNorm, [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  Recorder recorder;
  run_recorded(&recorder, kNorm, [&] { std::this_thread::sleep_for(std::chrono::milliseconds(5)), ++runs; });
  EXPECT_EQ(runs, 2);
  ASSERT_EQ(recorder.records().size(), 1u);
  EXPECT_EQ(recorder.records()[0].work.layer, 7);
  EXPECT_GE(recorder.records()[0].seconds, 0.005);
}

}  // namespace
}  // namespace reel
