#include "reel/cost/collective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/base/testing.h"
#include "reel/cost/nccl.h"
#include "reel/cost/testing.h"

namespace reel::cost {
namespace {

// A fabric of round numbers: 1 us a step, 100 GB/s inside a node, 10 GB/s a NIC, LL out of the way.
Cluster simple() {
  Cluster c = cluster("a100-selene");
  Fabric& f = c.fabric;
  f.process = 0;
  f.base = {1e6, 0, 0};
  f.intra_latency = {0, 1e-6, 1e-6};
  f.intra_bandwidth = {1e9, 100e9, 100e9};
  f.inter_latency = 8e-6;
  f.inter_bandwidth = 10e9;
  f.reduce_bandwidth = 1e18;
  f.send = f.send_intra = f.pairs = 1;
  f.origin.bytes = {1e6, 1e9};
  f.origin.devices = {2, 8};
  return c;
}

double seconds(const Cluster& c, CollectiveOp op, std::int64_t devices, std::int64_t per_node, double bytes,
               std::int64_t sharing = 1) {
  return cost_of(c, {op, devices, per_node, bytes, sharing}).seconds;
}

TEST(Collective, RingOfFourTakesItsStepsAndItsBytes) {
  const Cluster c = simple();
  // all_gather: three steps, three quarters of the result arrive. LL at a million seconds is out of the way.
  EXPECT_NEAR(seconds(c, CollectiveOp::kAllGather, 4, 4, 400e6), 3e-6 + 300e6 / 100e9, 1e-9);
  EXPECT_NEAR(seconds(c, CollectiveOp::kReduceScatter, 4, 4, 400e6), 3e-6 + 300e6 / 100e9, 1e-9);
  EXPECT_NEAR(seconds(c, CollectiveOp::kAllReduce, 4, 4, 400e6), 6e-6 + 600e6 / 100e9, 1e-9);
  EXPECT_NEAR(seconds(c, CollectiveOp::kBroadcast, 4, 4, 400e6), 3e-6 + 400e6 / 100e9, 1e-9);
  EXPECT_NEAR(seconds(c, CollectiveOp::kAllToAll, 4, 4, 400e6), 3e-6 + 300e6 / 100e9, 1e-9);
  EXPECT_NEAR(seconds(c, CollectiveOp::kSendRecv, 4, 4, 400e6), 1e-6 + 400e6 / 100e9, 1e-9);
}

TEST(Collective, OneDeviceTakesNothingAndNoBytesOnlyTheLatency) {
  const Cluster c = cluster("a100-azure");
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllToAll, CollectiveOp::kSendRecv}) {
    EXPECT_EQ(seconds(c, op, 1, 1, 1e9), 0);
    EXPECT_GT(seconds(c, op, 8, 8, 0), 1e-6);
    EXPECT_LT(seconds(c, op, 8, 8, 0), 1e-4);
  }
}

TEST(Collective, MoreBytesNeverTakeMuchLess) {
  // NCCL's own choice is not always the best one, so that a larger call can be a little quicker; published logs show
  // the same (A100, 64 GPUs: 250 us for 128 KB, 131 us for 256 KB).
  for (const char* name : {"a100-selene", "a100-azure", "h100-ndr400", "h800", "b200"}) {
    const Cluster c = cluster(name);
    for (const auto& [devices, per_node] : {std::pair(2, 2), {8, 8}, {16, 8}, {64, 8}, {4096, 8}, {64, 1}}) {
      for (int op = 0; op < 6; ++op) {
        double before = 0;
        for (double bytes = 64; bytes < 1e11; bytes *= 2) {
          const double now = seconds(c, static_cast<CollectiveOp>(op), devices, per_node, bytes);
          EXPECT_TRUE(std::isfinite(now) && now > 0);
          EXPECT_GT(now, 0.4 * before) << name << " " << devices << " " << op << " " << bytes;
          before = now;
        }
      }
    }
  }
}

TEST(Collective, MoreBytesNeverTakeLessAroundRingsAndBetweenPairs) {
  // What is known of NCCL's wrong choices was measured for trees; rings by LL are priced as no worse than by LL128.
  for (const char* name : {"a100-selene", "a100-azure", "h100-ndr400", "h800", "b200"}) {
    const Cluster c = cluster(name);
    for (const auto& [devices, per_node] : {std::pair(2, 1), {3, 1}, {8, 1}, {8, 4}, {12, 2}, {64, 8}, {1000, 1}}) {
      for (int op = 1; op < 6; ++op) {
        double before = 0;
        for (double bytes = 64; bytes < 1e11; bytes *= 2) {
          const double now = seconds(c, static_cast<CollectiveOp>(op), devices, per_node, bytes);
          EXPECT_GE(now, before) << name << " " << devices << " " << op << " " << bytes;
          before = now;
        }
      }
    }
  }
}

TEST(Collective, TheSmallestShareOfANodeLimitsTheOthers) {
  EXPECT_EQ(even_share(12, 4), 4);
  EXPECT_EQ(even_share(11, 3), 1);
  const Cluster c = cluster("h100-ndr400");
  for (int op = 0; op < 6; ++op) {
    const auto collective = static_cast<CollectiveOp>(op);
    EXPECT_EQ(seconds(c, collective, 12, 8, 1e8), seconds(c, collective, 12, 4, 1e8)) << op;
  }
}

TEST(Collective, GroupsThatShareNicsTakeLonger) {
  Cluster c = simple();
  const double alone = seconds(c, CollectiveOp::kAllGather, 4, 1, 1e9);
  EXPECT_EQ(seconds(c, CollectiveOp::kAllGather, 4, 1, 1e9, 8), alone);  // eight groups, a NIC for each
  c.fabric.nics = 4;
  EXPECT_NEAR(seconds(c, CollectiveOp::kAllGather, 4, 1, 1e9, 8) / alone, 2, 0.01);
  EXPECT_NEAR(
      seconds(c, CollectiveOp::kAllToAll, 16, 8, 1e9, 1) / seconds(simple(), CollectiveOp::kAllToAll, 16, 8, 1e9), 2,
      0.01);
  EXPECT_NEAR(send_cost(c, 1e9, true, 8).seconds / send_cost(c, 1e9, true, 4).seconds, 2, 0.01);
  EXPECT_LT(send_cost(c, 1e9, false).seconds, send_cost(c, 1e9, true).seconds);
}

TEST(Collective, MoreDevicesOnANodeBringTheirNics) {
  const Cluster c = simple();
  const double one = seconds(c, CollectiveOp::kAllGather, 16, 1, 4e9),
               four = seconds(c, CollectiveOp::kAllGather, 16, 4, 4e9);
  EXPECT_NEAR(one / four, 4, 0.05);  // a p-norm of links and NICs: 40 and 100 GB/s give 39.9
}

TEST(Collective, NcclPrefersTreesForSmallAndRingsForLargeBuffers) {
  const Cluster c = cluster("a100-azure");
  const auto choice = [&](std::int64_t devices, double bytes) {
    const CollectiveCost cost = cost_of(c, {CollectiveOp::kAllReduce, devices, 8, bytes});
    return std::string(algorithm_name(cost.algorithm)) + " " + protocol_name(cost.protocol);
  };
  EXPECT_EQ(choice(64, 64e3), "tree LL");
  EXPECT_EQ(choice(64, 4e6), "tree LL128");
  EXPECT_EQ(choice(64, 4e9), "ring Simple");
  EXPECT_EQ(choice(8, 16e6), "ring LL128");
  EXPECT_EQ(choice(8, 1e9), "ring Simple");
  EXPECT_EQ(choice(8, 1e3), "tree LL");
}

TEST(Collective, SwitchesThatAddAreUsedByMoreThanHalfOfANode) {
  const Cluster c = cluster("h100-ndr400");
  EXPECT_EQ(cost_of(c, {CollectiveOp::kAllReduce, 8, 8, 1e9}).algorithm, Algorithm::kNvls);
  EXPECT_EQ(cost_of(c, {CollectiveOp::kAllReduce, 4, 4, 1e9}).algorithm, Algorithm::kRing);
  EXPECT_EQ(cost_of(c, {CollectiveOp::kAllGather, 8, 8, 1e9}).algorithm, Algorithm::kRing);
}

TEST(Collective, SaysWhenItIsOutsideOfWhatWasFitted) {
  const Cluster c = simple();
  EXPECT_FALSE(cost_of(c, {CollectiveOp::kAllReduce, 8, 8, 1e8}).outside_fit);
  EXPECT_TRUE(cost_of(c, {CollectiveOp::kAllReduce, 16, 8, 1e8}).outside_fit);
  EXPECT_TRUE(cost_of(c, {CollectiveOp::kAllReduce, 8, 8, 1e10}).outside_fit);
}

TEST(Collective, GroupsThatCannotBePlacedAreErrors) {
  const Cluster c = cluster("a100-azure");
  const auto error = [&](Collective collective) { return message_of([&] { cost_of(c, collective); }); };
  EXPECT_NE(error({CollectiveOp::kAllReduce, 16, 16, 1e6}).find("a node has 8 devices"), std::string::npos);
  EXPECT_NE(error({CollectiveOp::kAllReduce, 8, 8, -1}).find("bytes are 0 or more"), std::string::npos);
  EXPECT_NE(error({CollectiveOp::kAllReduce, 8, 8, NAN}).find("bytes are 0 or more"), std::string::npos);
  EXPECT_NE(error({CollectiveOp::kAllReduce, 0, 8, 1}).find("at least 1"), std::string::npos);
  EXPECT_EQ(error({CollectiveOp::kAllReduce, 4, 8, 1e6}), "no error");
  EXPECT_EQ(message_of([] { collective_from_name("all_reduc"); }),
            "op 'all_reduc' is not known | did you mean 'all_reduce'?");
  EXPECT_EQ(collective_from_name("alltoall_perf"), CollectiveOp::kAllToAll);
  EXPECT_EQ(collective_from_name("sendrecv_perf"), CollectiveOp::kSendRecv);
}

}  // namespace
}  // namespace reel::cost
