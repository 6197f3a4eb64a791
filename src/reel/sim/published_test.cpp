// Training steps compared with the figures in tests/published.csv. Nothing was fitted to a training step; a job says
// what was published of it: the model, its cut, the batch and full recompute. docs/validation.md compares with whole
// tables.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reel/cost/testing.h"
#include "reel/sim/simulate.h"
#include "reel/sim/testing.h"

namespace reel::sim {
namespace {

// Measured Megatron iterations on 64 and 512 A100 (vTrain, MICRO 2024), which publishes 14.7 % for itself.
TEST(Published, VTrainOnManyNodesWithin11Percent) {
  const cost::Cluster selene = test_cluster("a100-selene");
  double errors = 0, sum = 0;
  const auto rows = cost::published("vtrain", "ms");
  for (const cost::Published& row : rows) {
    const double error = 1e3 * simulate(read_job(row.what, defaults(selene)), selene).step_seconds / row.value - 1;
    errors += std::abs(error), sum += error;
  }
  EXPECT_LT(errors / static_cast<double>(rows.size()), 0.11);
  EXPECT_NEAR(sum / static_cast<double>(rows.size()), -0.084, 0.01);  // too fast
}

struct Schedule2021 {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t chunks = 0, micro_batch = 0;
};

// The fastest that fits in memory of micro-batches of 1 to 16 and, with a pipeline, `least` to `most` chunks a stage.
Schedule2021 fastest(const Job& given, const cost::Cluster& cluster, std::int64_t least, std::int64_t most) {
  Schedule2021 best;
  for (const std::int64_t micro_batch : {1, 2, 4, 8, 16}) {
    for (std::int64_t chunks = least; chunks <= most; ++chunks) {
      Job job = given;
      job.micro_batch = micro_batch, job.parallel.interleave = job.parallel.pipeline > 1 ? chunks : 1;
      if (finish(job).has_value()) continue;
      const Result result = simulate(job, cluster);
      if (result.fits && result.step_seconds < best.seconds)
        best = {result.step_seconds, job.parallel.interleave, micro_batch};
    }
  }
  return best;
}

double seconds_2021(const Job& job, double teraflops) {  // equation 3 of the paper
  const auto h = static_cast<double>(job.model.hidden), l = static_cast<double>(job.model.layers);
  const double s = static_cast<double>(job.model.sequence), v = static_cast<double>(job.model.vocab);
  const double work = 96 * job.tokens_per_step() * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return work / (static_cast<double>(job.devices()) * teraflops * 1e12);
}

// Table 1 of Megatron-LM's paper of 2021 (arXiv 2104.04473), 32 to 3,072 A100, ran the interleaved schedule.
// Micro-batches and the number of chunks are not published: the fastest are taken. All predictions are then too fast,
// by 5.7 % on average; without interleaving they would be off by 2.4 %, but that is not what was run.
TEST(Published, MegatronOf2021InterleavedIsSixPercentTooFast) {
  const cost::Cluster selene = test_cluster("a100-selene");
  double sum = 0, worst = 0;
  const auto rows = cost::published("megatron-2021", "TFLOP/s per GPU");
  for (const cost::Published& row : rows) {
    const Job job = read_job(row.what, defaults(selene));
    const Schedule2021 best = fastest(job, selene, 1, 4);
    EXPECT_EQ(best.chunks > 1, job.parallel.pipeline > 1) << job.model.hidden;
    const double error = best.seconds / seconds_2021(job, row.value) - 1;
    EXPECT_LT(error, 0) << job.model.hidden;
    sum += error, worst = std::min(worst, error);
  }
  EXPECT_NEAR(sum / static_cast<double>(rows.size()), -0.057, 0.003);
  EXPECT_NEAR(worst, -0.090, 0.005);
}

}  // namespace
}  // namespace reel::sim
