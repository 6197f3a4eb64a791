// The benchmarks behind `reel bench`. Each measures its shapes (of the options, or a set of its own) and adds rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/app/measure.h"

namespace reel::app {

struct BenchOptions {
  int threads = default_threads();
  std::string json;
  int rounds = 8;  // at most, of cases that take turns: gemm, attention, select
  // gemm: x is m x k, W is n x k
  std::int64_t m = 0, n = 0, k = 0;
  // attention and select; 0, a negative sparsity: not given
  std::int64_t heads = 0, tokens = 0, head_dim = 0, group = 0, block = 0;
  double sparsity = -1;
  bool no_dense = false;  // sparse
  std::string lists;
  // select
  std::int64_t rank = 16, samples = 16;
  // train and quality
  std::string model;
  std::vector<std::string> set;
  std::int64_t steps = 2;  // that are measured
  // sequence
  bool no_poll = false;
  std::string only;
  // quality
  std::int64_t train_steps = 0, seeds = 3;  // 0: as the run file says
  double keys = 0.15;
  std::vector<std::string> arms = {"dense", "dynamic", "own", "random", "window", "static"};
  std::string report;
};

void bench_gemm(const BenchOptions& options);
void bench_attention(const BenchOptions& options);
void bench_select(const BenchOptions& options);
void bench_sparse(const BenchOptions& options);
void bench_train(const BenchOptions& options);
void bench_quality(const BenchOptions& options);
void bench_plan(const BenchOptions& options);
void bench_sequence(const BenchOptions& options);

}  // namespace reel::app
