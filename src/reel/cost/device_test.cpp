#include "reel/cost/device.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/cost/kernels.h"
#include "reel/cost/testing.h"

namespace reel::cost {
namespace {

// A device of round numbers, for times that can be computed by hand.
Device simple_device() {
  Device d;
  d.name = "simple";
  d.sms = 10;
  d.gemm.peak_bf16 = 1e12;
  d.gemm.efficiency_bf16 = 1;
  d.gemm.tile_m = d.gemm.tile_n = 100;
  d.memory.bandwidth = 1e15;
  d.memory.efficiency = 1;
  d.memory.optimizer_bytes = 30;
  return d;
}

TEST(Device, GemmCountsTilesAndWaves) {
  const Device d = simple_device();
  const DeviceCost cost(d);
  EXPECT_DOUBLE_EQ(cost.quantisation({1000, 100, 500}), 1);     // ten tiles, one wave
  EXPECT_DOUBLE_EQ(cost.quantisation({1100, 100, 500}), 0.55);  // eleven tiles: two waves of ten
  EXPECT_DOUBLE_EQ(cost.quantisation({50, 100, 500}), 0.05);    // half of one tile of ten
  EXPECT_DOUBLE_EQ(cost.quantisation({100, 100, 500, 10}), 1);  // a batch fills the device
  // four experts of 150 rows on average: 4 x (1.5 + 0.5) tiles
  EXPECT_DOUBLE_EQ(cost.quantisation({150, 100, 500, 4, Precision::kBf16, true}), 0.6);
  EXPECT_DOUBLE_EQ(cost.seconds(Gemm{1000, 100, 500}), 2.0 * 1000 * 100 * 500 / 1e12);
  EXPECT_DOUBLE_EQ(cost.seconds(Gemm{1100, 100, 500}), 2 * cost.seconds(Gemm{1000, 100, 500}));
}

TEST(Device, GemmIsBoundByMemoryWhereItHasFewOperations) {
  Device d = simple_device();
  d.memory.bandwidth = 1e9;
  d.launch = 1e-3;
  const double bytes = 2.0 * (1000 + 100 + 1000 * 100);  // k = 1
  EXPECT_DOUBLE_EQ(DeviceCost(d).seconds(Gemm{1000, 100, 1}), bytes / 1e9 + 1e-3);
  EXPECT_DOUBLE_EQ(DeviceCost(d).memory_seconds(1e9), 1 + 1e-3);
  EXPECT_DOUBLE_EQ(DeviceCost(d).optimizer_seconds(1e8), 3 + 1e-3);
  EXPECT_EQ(DeviceCost(d).seconds(Gemm{0, 100, 1}), 0);
  EXPECT_EQ(DeviceCost(d).memory_seconds(0), 0);
}

TEST(Device, Fp8NeedsADeviceThatHasIt) {
  const Cluster a100 = cluster("a100-selene"), h100 = cluster("h100-ndr400");
  const Gemm gemm{8192, 8192, 8192, 1, Precision::kFp8};
  EXPECT_EQ(message_of([&] { DeviceCost(a100.device).seconds(gemm); }).substr(0, 25), "A100-SXM4-80GB has no fp8");
  EXPECT_LT(DeviceCost(h100.device).seconds(gemm), DeviceCost(h100.device).seconds(Gemm{8192, 8192, 8192}));
}

double teraflops(const Cluster& c, const Gemm& g) {
  return 2e-12 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) /
         DeviceCost(c.device).seconds(g);
}

// cuBLASLt on A100 (Azure's AI benchmarking guide): large shapes within 5 %, small ones within 20 %, where the choice
// of tiles is the library's.
TEST(Device, GemmIsNearPublishedRates) {
  const Cluster a100 = cluster("a100-selene"), h100 = cluster("h100-ndr400");
  EXPECT_NEAR(teraflops(a100, {16384, 16384, 16384}) / 256.5, 1, 0.05);
  EXPECT_NEAR(teraflops(a100, {8192, 8192, 8192}) / 253.7, 1, 0.05);
  EXPECT_NEAR(teraflops(a100, {4096, 4096, 4096}) / 228.0, 1, 0.05);
  EXPECT_NEAR(teraflops(a100, {6144, 12288, 12288}) / 250.8, 1, 0.05);
  EXPECT_NEAR(teraflops(a100, {802816, 192, 768}) / 157.8, 1, 0.1);
  EXPECT_NEAR(teraflops(a100, {2048, 2048, 2048}) / 221.8, 1, 0.25);
  EXPECT_NEAR(teraflops(a100, {1024, 1024, 1024}) / 119.4, 1, 0.25);
  EXPECT_NEAR(teraflops(h100, {16384, 16384, 16384, 1, Precision::kFp8}) / 1377.3, 1, 0.05);
  EXPECT_NEAR(teraflops(h100, {8192, 8192, 8192, 1, Precision::kFp8}) / 1290.1, 1, 0.05);
  EXPECT_NEAR(teraflops(h100, {6144, 12288, 12288, 1, Precision::kFp8}) / 1351.4, 1, 0.05);
}

// Forward and backward together, 16k tokens in a batch, width 2,048 (FlashAttention-2's own figures).
TEST(Device, FlashAttentionIsNearPublishedRates) {
  const Cluster a100 = cluster("a100-selene");
  const DeviceCost cost(a100.device);
  const auto rate = [&](std::int64_t length, std::int64_t head_dim, bool causal) {
    const Attention a{16384 / length, 2048 / head_dim, 0, length, length, head_dim, causal};
    const double pairs = static_cast<double>(a.batch * a.heads * length * length) * (causal ? 0.5 : 1);
    return 14e-12 * pairs * static_cast<double>(head_dim) /
           (cost.seconds(a, Direction::kForward) + cost.seconds(a, Direction::kBackward));
  };
  const std::int64_t lengths[] = {512, 1024, 2048, 4096, 8192, 16384};
  const double full_128[] = {150, 173, 187, 196, 201, 203}, full_64[] = {132, 153, 162, 171, 175, 176};
  const double causal_128[] = {99, 133, 155, 173, 182, 189};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(rate(lengths[i], 128, false) / full_128[i], 1, 0.06) << lengths[i];
    EXPECT_NEAR(rate(lengths[i], 64, false) / full_64[i], 1, 0.08) << lengths[i];
    EXPECT_NEAR(rate(lengths[i], 128, true) / causal_128[i], 1, 0.08) << lengths[i];
  }
}

TEST(Device, UnfusedAttentionPaysForItsScores) {
  const Cluster a100 = cluster("a100-selene");
  const DeviceCost cost(a100.device);
  Attention a{1, 16, 0, 2048, 2048, 128, true};
  const double fused = cost.seconds(a, Direction::kForward);
  a.flash = false;
  EXPECT_GT(cost.seconds(a, Direction::kForward), 2 * fused);
  EXPECT_GT(cost.seconds(a, Direction::kBackward), cost.seconds(a, Direction::kForward));
}

// DSV's published log: H100, 64k tokens, 4 heads of 128, groups of 32; milliseconds.
TEST(Device, ListSparseAttentionIsNearPublishedTimes) {
  const Cluster h100 = cluster("h100-ndr400");
  const DeviceCost cost(h100.device);
  const double sparsity[] = {0.80, 0.85, 0.90, 0.95, 0.98}, forward[] = {9.25, 7.08, 4.90, 2.75, 1.31},
               backward[] = {193.6, 147.9, 102.7, 57.4, 27.2};
  for (int i = 0; i < 5; ++i) {
    const SparseAttention a{1, 4, 65536, 65536, 128, 32, sparsity[i]};
    EXPECT_NEAR(1e3 * cost.seconds(a, Direction::kForward) / forward[i], 1, 0.06) << sparsity[i];
    EXPECT_NEAR(1e3 * cost.seconds(a, Direction::kBackward) / backward[i], 1, 0.06) << sparsity[i];
  }
  EXPECT_NEAR(1e3 * cost.seconds(Selection{1, 4, 65536, 65536, 32, 1, 16}) / 5.2, 1, 0.05);
  const SparseAttention small{1, 4, 65536, 65536, 128, 16, 0.9}, large{1, 4, 65536, 65536, 128, 128, 0.9};
  EXPECT_GT(cost.seconds(small, Direction::kForward), 1.5 * cost.seconds(large, Direction::kForward));
}

TEST(Device, MeasuredTimesReplaceTheModels) {
  const Cluster a100 = cluster("a100-selene");
  const KernelTable table = KernelTable::parse(
      "kernel,seconds\n"
      "gemm 4096x1024x512 bf16,0.5\n"
      "gemm 4096x1024x512 bf16 batch=2,1.5\n"
      "attention backward 8x2048x2048x64 flash causal,2.5\n"
      "sparse forward 8x2048x2048x64 group=64 sparsity=0.9,3.5\n",
      "k.csv");
  const DeviceCost cost(a100.device, &table), model(a100.device);
  EXPECT_EQ(table.size(), 4U);
  EXPECT_EQ(cost.seconds(Gemm{4096, 1024, 512}), 0.5);
  EXPECT_EQ(cost.seconds(Gemm{4096, 1024, 512, 2}), 1.5);
  EXPECT_EQ(cost.seconds(Gemm{4096, 1024, 513}), model.seconds(Gemm{4096, 1024, 513}));
  const Attention attention{2, 4, 0, 2048, 2048, 64, true};
  EXPECT_EQ(cost.seconds(attention, Direction::kBackward), 2.5);
  EXPECT_EQ(cost.seconds(attention, Direction::kForward), model.seconds(attention, Direction::kForward));
  EXPECT_EQ(cost.seconds(SparseAttention{1, 8, 2048, 2048, 64, 64, 0.9}, Direction::kForward), 3.5);
}

TEST(Device, WrongKernelTablesAreNamedWithTheirLine) {
  const auto error = [](const char* text) { return message_of([&] { KernelTable::parse(text, "k.csv"); }); };
  EXPECT_EQ(error("kernel,seconds\ngem 1x2x3 bf16,1\n").substr(0, 7), "k.csv:2");
  EXPECT_NE(error("kernel,seconds\ngem 1x2x3 bf16,1\n").find("did you mean 'gemm'?"), std::string::npos);
  EXPECT_NE(error("kernel,seconds\ngemm 1x2x3 bf16,-1\n").find("k.csv:2: seconds is -1"), std::string::npos);
  EXPECT_NE(error("kernel,seconds\ngemm 1x2x3 bf16,1\ngemm 1x2x3 bf16,1\n").find("k.csv:3"), std::string::npos);
  EXPECT_NE(error("kernel,secnds\ngemm 1x2x3 bf16,1\n").find("seconds"), std::string::npos);
}

}  // namespace
}  // namespace reel::cost
