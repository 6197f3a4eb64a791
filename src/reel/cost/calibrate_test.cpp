#include "reel/cost/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/base/testing.h"
#include "reel/files/file.h"

namespace reel::cost {
namespace {

Cluster selene() { return load_cluster(REEL_SOURCE_DIR "/clusters/a100-selene.toml"); }

// Calls as they would be measured on `truth`.
std::vector<MeasuredCall> measured_on(const Cluster& truth, const std::vector<std::int64_t>& counts) {
  std::vector<MeasuredCall> calls;
  for (const std::int64_t devices : counts) {
    for (double bytes = 1024; bytes < 5e9; bytes *= 4) {
      const Collective call{CollectiveOp::kAllReduce, devices, std::min<std::int64_t>(devices, 8), bytes};
      calls.push_back({call, cost_of(truth, call).seconds});
    }
  }
  return calls;
}

TEST(Calibrate, FindsAFabricThatIsNotItsOwn) {
  Cluster truth = selene();
  truth.fabric.inter_bandwidth *= 0.6;
  truth.fabric.inter_latency *= 1.5;
  truth.fabric.intra_bandwidth[2] *= 0.9;
  truth.fabric.base = {10e-6, 25e-6, 60e-6};
  const std::vector<MeasuredCall> calls = measured_on(truth, {2, 4, 8, 16, 64});
  const Fit fit = calibrate(selene(), calls);
  EXPECT_GT(fit.before, 0.15);
  EXPECT_LT(fit.after, 0.02);
  EXPECT_LT(fit.left_out, 0.05);
  EXPECT_NEAR(fit.cluster.fabric.inter_bandwidth / truth.fabric.inter_bandwidth, 1, 0.02);
  EXPECT_EQ(fit.cluster.fabric.origin.basis, "measured");
  EXPECT_EQ(fit.cluster.fabric.origin.devices, (std::vector<double>{2, 64}));
}

TEST(Calibrate, WhatTheCallsDoNotTellStaysAsItWas) {
  Cluster truth = selene();
  truth.fabric.intra_bandwidth[2] *= 0.8;
  const Fit fit = calibrate(selene(), measured_on(truth, {8}));
  EXPECT_EQ(fit.cluster.fabric.inter_bandwidth, selene().fabric.inter_bandwidth);
  EXPECT_TRUE(std::find(fit.kept.begin(), fit.kept.end(), "fabric.inter_bandwidth") != fit.kept.end());
  EXPECT_TRUE(std::find(fit.fitted.begin(), fit.fitted.end(), "fabric.intra_bandwidth[2]") != fit.fitted.end());
  EXPECT_EQ(fit.left_out, 0);  // only one count
  EXPECT_NE(message_of([] { calibrate(selene(), {}); }), "no error");
}

TEST(Calibrate, TheWrittenFileReadsBackWithItsComments) {
  Cluster truth = selene();
  truth.fabric.inter_bandwidth = 12.5e9;
  const Fit fit = calibrate(selene(), measured_on(truth, {8, 16, 64}));
  const std::string text = with_fabric(read_file(selene().path), fit.cluster);
  EXPECT_NE(text.find("# 12 links of 20 GB/s"), std::string::npos);
  const Cluster again = parse_cluster(text, "again.toml");
  EXPECT_EQ(again.fabric.origin.basis, "measured");
  EXPECT_NEAR(again.fabric.inter_bandwidth / fit.cluster.fabric.inter_bandwidth, 1, 1e-3);
  EXPECT_NEAR(mean_error(again, measured_on(truth, {16})), mean_error(fit.cluster, measured_on(truth, {16})), 1e-3);
  EXPECT_EQ(again.device.gemm.peak_bf16, 312e12);
}

const char* const kNcclTests =
    R"(# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid 1201 on    node-a device  0 [0x00] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid 1202 on    node-a device  1 [0x01] NVIDIA A100-SXM4-40GB
#  Rank  2 Group  0 Pid 1301 on    node-b device  0 [0x00] NVIDIA A100-SXM4-40GB
#  Rank  3 Group  0 Pid 1302 on    node-b device  1 [0x01] NVIDIA A100-SXM4-40GB
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    314.8    0.00    0.01      0    293.7    0.00    0.01      0
        2048           512     float     sum      -1    81.88    0.03    0.05      0    73.11    0.03    0.05    N/A
     1048576        262144     float     sum      -1    157.0    6.68   10.02      0    157.9    6.64    9.96      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.1
)";

TEST(Calibrate, ReadsWhatNcclTestsPrints) {
  const std::vector<MeasuredCall> calls = parse_measured_calls(kNcclTests, "log.txt", selene());
  ASSERT_EQ(calls.size(), 2U);  // the first row was a warm-up
  EXPECT_EQ(calls[0].call.op, CollectiveOp::kAllReduce);
  EXPECT_EQ(calls[0].call.devices, 4);
  EXPECT_EQ(calls[0].call.per_node, 2);
  EXPECT_EQ(calls[1].call.bytes, 1048576);
  EXPECT_DOUBLE_EQ(calls[1].seconds, 157.0e-6);
  std::string two = kNcclTests;  // a second log, of two ranks on one node and of another collective
  two +=
      "# all_gather_perf\n# Rank 0 Pid 1 on node-a device 0\n# Rank 1 Pid 2 on node-a device 1\n"
      "1048576 16384 float none -1 60.0 0 0 0 60.0 0 0 0\n";
  const auto both = parse_measured_calls(two, "log.txt", selene());
  ASSERT_EQ(both.size(), 3U);
  EXPECT_EQ(both[2].call.op, CollectiveOp::kAllGather);
  EXPECT_EQ(both[2].call.devices, 2);
  EXPECT_EQ(both[2].call.per_node, 2);
  std::string older = kNcclTests;  // without the name of the test and without the column root
  older.erase(older.find("# Collective"), older.find("# Using") - older.find("# Collective"));
  while (older.find("      -1") != std::string::npos) older.erase(older.find("      -1"), 8);
  EXPECT_NE(message_of([&] { parse_measured_calls(older, "log.txt", selene()); }).find("--op"), std::string::npos);
  const auto named = parse_measured_calls(older, "log.txt", selene(), "reduce_scatter");
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[1].call.op, CollectiveOp::kReduceScatter);
  EXPECT_DOUBLE_EQ(named[1].seconds, 157.0e-6);
}

TEST(Calibrate, ReadsTablesOfBothKinds) {
  const auto own = parse_measured_calls(
      "op,devices,per_node,bytes,seconds\nall_gather,16,8,1000000,0.002\nall_gather,1,1,1000000,0.002\n", "t.csv",
      selene());
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0].call.per_node, 8);
  EXPECT_EQ(own[0].seconds, 0.002);
  const auto collected = parse_measured_calls(
      "nodes,gpus_per_node,collective,size_B,dtype,oop_time_us\n10,4,alltoall_perf,33554432,double,975\n", "t.csv",
      selene());
  ASSERT_EQ(collected.size(), 1U);
  EXPECT_EQ(collected[0].call.devices, 40);
  EXPECT_EQ(collected[0].call.op, CollectiveOp::kAllToAll);
  EXPECT_DOUBLE_EQ(collected[0].seconds, 975e-6);
  EXPECT_EQ(parse_measured_calls("gpus,size_B,oop_time_us\n16,1024,30\n", "t.csv", selene())[0].call.per_node, 8);
}

TEST(Calibrate, WrongTablesAreNamedWithTheirLine) {
  const auto error = [](const char* text) {
    return message_of([&] { parse_measured_calls(text, "t.csv", selene()); });
  };
  EXPECT_EQ(error("op,devices,per_node,bytes,seconds\nall_redce,8,8,1,1\n"),
            "t.csv:2: op 'all_redce' is not known | did you mean 'all_reduce'?");
  EXPECT_NE(error("op,devices,per_node,seconds\nall_reduce,8,8,1\n").find("bytes"), std::string::npos);
  EXPECT_NE(error("gpus,size_B,time\n8,8,8\n").find("oop_time_us"), std::string::npos);
  EXPECT_NE(error("op,devices,per_node,bytes,seconds\nall_reduce,8,8,1,-1\n").find("t.csv:2"), std::string::npos);
  EXPECT_NE(error("nothing of the kind\n").find("no results"), std::string::npos);
  EXPECT_NE(error("1024 256 float sum -1 3 0 0 0 3 0 0 0\n").find("# Rank"), std::string::npos);
}

}  // namespace
}  // namespace reel::cost
