#include "reel/sim/experts.h"

#include <gtest/gtest.h>

#include "reel/files/toml.h"
#include "reel/sim/build.h"
#include "reel/sim/simulate.h"
#include "reel/sim/testing.h"

namespace reel::sim {
namespace {

Job moe(const std::string& more = "") {
  return read_job(
      Toml::parse("model.hidden = 1024\nmodel.layers = 2\nmodel.ffn = 512\nmodel.experts = 16\n"
                  "model.top_k = 4\nmodel.vocab = 32000\nmodel.gated = true\n" +
                      more,
                  "job.toml"));
}

struct Count {
  int tasks = 0;
  double bytes = 0;  // of calls
};

// Tasks of that name in the first rank's program, one micro-batch.
Count count(const Built& built, const std::string& name) {
  Count result;
  const Workload& w = built.workload;
  const Program& program = w.programs[0];
  for (const Step& step : program.order) {
    for (const Task& task : program.blocks[static_cast<std::size_t>(step.block)].tasks) {
      if (w.names[static_cast<std::size_t>(task.name)] != name) continue;
      ++result.tasks;
      if (task.call >= 0) result.bytes += w.calls[static_cast<std::size_t>(task.call)].bytes;
    }
  }
  return result;
}

// Two layers, two exchanges each way: eight times 2,048 tokens x 4 copies x 1,024 x 2 bytes.
TEST(Experts, EachTokenIsSentTopKTimesThereAndBack) {
  const Count sent =
      count(build(moe("parallel.data = 4\nparallel.expert = 4\n"), test_cluster()), "all-to-all of tokens");
  EXPECT_EQ(sent.tasks, 8);
  EXPECT_EQ(sent.bytes, 8.0 * 2048 * 4 * 1024 * 2);
  const std::string cut =
      "parallel.data = 2\nparallel.tensor = 2\nparallel.sequence_parallel = true\nparallel.expert = 2\n";
  EXPECT_EQ(count(build(moe(cut), test_cluster()), "all-to-all of tokens").bytes, 8.0 * 1024 * 4 * 1024 * 2);
}

// Sixteen experts on four ranks: halves of eight, or four whole ones. Each rank has as many parameters and operations.
TEST(Experts, WholeExpertsTakeTheSameWorkWithoutTensorCollectives) {
  const std::string cut = "parallel.data = 2\nparallel.tensor = 2\nparallel.sequence_parallel = true\n";
  const Job shared = moe(cut + "parallel.expert = 2\n"),
            whole = moe(cut + "parallel.expert = 4\nparallel.expert_tensor = 1\n");
  const Built a = build(shared, test_cluster()), b = build(whole, test_cluster());
  EXPECT_EQ(a.memory[0].weights, b.memory[0].weights);
  // of each layer's MLP: a gather and a scatter each way
  EXPECT_EQ(count(a, "all-gather").tasks - count(b, "all-gather").tasks, 4);
  EXPECT_EQ(count(a, "reduce-scatter").tasks - count(b, "reduce-scatter").tasks, 4);
  EXPECT_LT(simulate(whole, test_cluster()).breakdown_seconds(Category::kTensor),
            simulate(shared, test_cluster()).breakdown_seconds(Category::kTensor));
}

TEST(Experts, InputsAreQuantisedInFp8Only) {
  EXPECT_EQ(count(build(moe(), test_cluster()), "quantise").tasks, 0);
  EXPECT_EQ(count(build(moe("memory.precision = \"fp8\"\n"), test_cluster()), "quantise").tasks, 8);
}

TEST(Experts, ASharedExpertIsADenseMlpBesideThem) {
  const Job plain = moe(), shared = moe("model.shared_ffn = 512\n");
  EXPECT_EQ(model_parameters(shared) - model_parameters(plain), 2 * 3.0 * 1024 * 512);
  EXPECT_EQ(count(build(shared, test_cluster()), "shared expert in").tasks, 2 * 3);
  EXPECT_GT(model_flops(shared), model_flops(plain));
}

// A layer of small experts is issued more slowly than it computes: its time is that of the host.
TEST(Experts, ALayerTakesAtLeastAsLongAsTheHostNeedsToIssueIt) {
  const Job job = moe("memory.precision = \"fp8\"\nmodel.sequence = 256\n");
  cost::Cluster cluster = test_cluster();
  cluster.device.issue = cluster.device.operation = 0;
  const Built quick = build(job, cluster);
  EXPECT_EQ(count(quick, std::string(kHostWait)).tasks, 0);
  cluster.device.issue = 100e-6;
  const Built slow = build(job, cluster);
  EXPECT_EQ(count(slow, std::string(kHostWait)).tasks, 4);  // forward and backward of both layers
  // 16 experts: 6 products and 4 quantisations each, and some 40 other kernels a layer
  const double step = simulate(job, cluster).step_seconds;
  EXPECT_GT(step, 2 * (16 * 10 + 30) * 100e-6);
  EXPECT_LT(step, 2 * (16 * 10 + 60) * 100e-6);
}

// Some 42 operations a layer; the host has to wait for the number of tokens of each expert, which dense layers do not.
TEST(Experts, OperationsOfTheHostCountWhereItCannotRunAhead) {
  cost::Cluster cluster = test_cluster();
  cluster.device.issue = 0;
  cluster.device.operation = 1e-3;
  const double step = simulate(moe("memory.precision = \"fp8\"\n"), cluster).step_seconds;
  EXPECT_GT(step, 2 * 35e-3);
  EXPECT_LT(step, 2 * 50e-3);
  const Job dense = read_job(Toml::parse("model.hidden = 1024\nmodel.layers = 2\n", "job.toml"));
  EXPECT_LT(simulate(dense, cluster).step_seconds, 10e-3);
}

}  // namespace
}  // namespace reel::sim
