#include "reel/cost/overlap.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/cost/kernels.h"
#include "reel/cost/testing.h"

namespace reel::cost {
namespace {

TEST(Overlap, AKernelThatLeavesEnoughFreeDoesNotSlowDown) {
  EXPECT_EQ(contention({0.5, 0.5}, {0.2, 0.3}), 1);
  EXPECT_EQ(contention({1, 1}, {0, 0}), 1);
  EXPECT_DOUBLE_EQ(contention({1, 0.1}, {0.2, 0.3}), 1.25);
  EXPECT_DOUBLE_EQ(contention({0.1, 0.9}, {0.2, 0.4}), 1.5);
  EXPECT_LE(contention({1, 1}, {1, 2}), 20);
}

TEST(Overlap, NetworksTakeLessOfTheMemoryThanLinks) {
  const Cluster azure = cluster("a100-azure");
  const Load links = load_of(azure, cost_of(azure, {CollectiveOp::kAllReduce, 8, 8, 1e9}));
  const Load network = load_of(azure, cost_of(azure, {CollectiveOp::kAllReduce, 64, 1, 1e9}));
  EXPECT_GT(links.memory, 5 * network.memory);
  EXPECT_GT(links.sms, network.sms);
  EXPECT_EQ(load_of(azure, {}).sms, 0);
}

TEST(Overlap, MeasuredTablesAndConstantsComeFirst) {
  Cluster azure = cluster("a100-azure");
  const CollectiveCost network = cost_of(azure, {CollectiveOp::kAllReduce, 64, 1, 1e9});
  const OverlapTable table = OverlapTable::parse(
      "kernel,alone,overlapped\nampere_sgemm_128x32_tn,10,12\nmy_gemm,10,16\ncutlass_x,10,13\nflash_fwd,10,9\n",
      "o.csv");
  EXPECT_DOUBLE_EQ(slowdown(azure, KernelClass::kGemm, network, &table), 1.3);
  EXPECT_DOUBLE_EQ(slowdown(azure, KernelClass::kAttention, network, &table), 1);
  EXPECT_FALSE(table.slowdown(KernelClass::kMemory).has_value());
  EXPECT_DOUBLE_EQ(*table.slowdown_of("my_gemm"), 1.6);
  EXPECT_FALSE(table.slowdown_of("other_gemm").has_value());
  azure.overlap.memory = 1.8;
  EXPECT_DOUBLE_EQ(slowdown(azure, KernelClass::kMemory, network, &table), 1.8);
}

TEST(Overlap, WrongTablesAreNamedWithTheirLine) {
  const auto error = [](const char* text) { return message_of([&] { OverlapTable::parse(text, "o.csv"); }); };
  EXPECT_NE(error("kernel,alone,overlapped,class\nx,1,2,gem\n").find("o.csv:2: class 'gem'"), std::string::npos);
  EXPECT_NE(error("kernel,alone,overlapped\nx,0,2\n").find("o.csv:2: alone is 0"), std::string::npos);
  EXPECT_NE(error("kernel,alone\nx,1\n").find("overlapped"), std::string::npos);
}

TEST(Overlap, ClassesAreToldByNames) {
  EXPECT_EQ(class_of_kernel("ampere_sgemm_128x32_tn"), KernelClass::kGemm);
  EXPECT_EQ(class_of_kernel("fmha_cutlassB_f32_aligned_64x64"), KernelClass::kAttention);
  EXPECT_EQ(class_of_kernel("vectorized_elementwise_kernel"), KernelClass::kMemory);
}

}  // namespace
}  // namespace reel::cost
