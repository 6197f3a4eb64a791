#include "reel/predict/distil.h"

#include <gtest/gtest.h>

#include "reel/kernels/testing.h"

namespace reel::predict {
namespace {

using kernels::testing::doubles;
using kernels::testing::expect_close;
using kernels::testing::expect_same_bits;
using kernels::testing::random_array;

constexpr std::int64_t kHeads = 3, kHeadDim = 8, kRank = 4, kQueries = 4, kKeys = 22;

// ln of the weights that query i of head h gives to the keys.
std::vector<double> log_weights(const std::vector<double>& q, const std::vector<double>& k, std::int64_t dim,
                                std::int64_t h, std::int64_t i) {
  std::vector<double> scores;
  double sum = 0;
  for (std::int64_t j = 0; j < kKeys; ++j) {
    double score = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      score += q[static_cast<std::size_t>((i * kHeads + h) * dim + d)] *
               k[static_cast<std::size_t>((j * kHeads + h) * dim + d)];
    }
    scores.push_back(score / std::sqrt(static_cast<double>(kHeadDim)));
    sum += std::exp(scores.back());
  }
  for (double& score : scores) score -= std::log(sum);
  return scores;
}

double loss(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& low_q,
            const std::vector<double>& low_k) {
  double sum = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t i = 0; i < kQueries; ++i) {
      const auto truth = log_weights(q, k, kHeadDim, h, i), guess = log_weights(low_q, low_k, kRank, h, i);
      for (std::size_t j = 0; j < truth.size(); ++j) sum += std::exp(truth[j]) * (truth[j] - guess[j]);
    }
  }
  return sum / static_cast<double>(kHeads * kQueries);
}

TEST(Distil, GradientsAreThoseOfTheDivergence) {
  const auto q = random_array(kQueries * kHeads * kHeadDim, 1, 1.5f), k = random_array(kKeys * kHeads * kHeadDim, 2);
  const auto low_q = random_array(kQueries * kHeads * kRank, 3, 1.5f), low_k = random_array(kKeys * kHeads * kRank, 4);
  const DistilInput in{kHeads, kHeadDim, kRank, kQueries, kKeys, q.data(), k.data(), low_q.data(), low_k.data()};
  kernels::testing::Array dq(low_q.size()), dk(low_k.size());
  Threads one(1), three(3);
  distil(in, dq.data(), dk.data(), one);
  // Gradients are some 1e-2; sums of 22 weights in f32.
  expect_close(dq,
               kernels::testing::numeric_gradient(
                   doubles(low_q), [&](const auto& x) { return loss(doubles(q), doubles(k), x, doubles(low_k)); }),
               1e-7, 1e-5);
  expect_close(dk,
               kernels::testing::numeric_gradient(
                   doubles(low_k), [&](const auto& x) { return loss(doubles(q), doubles(k), doubles(low_q), x); }),
               1e-7, 1e-5);
  kernels::testing::Array other_dq(low_q.size()), other_dk(low_k.size());
  distil(in, other_dq.data(), other_dk.data(), three);
  expect_same_bits(dq, other_dq);
  expect_same_bits(dk, other_dk);
}

TEST(Distil, TrueScoresHaveNothingToLearn) {
  const auto q = random_array(kQueries * kHeads * kHeadDim, 1), k = random_array(kKeys * kHeads * kHeadDim, 2);
  kernels::testing::Array dq(q.size()), dk(k.size());
  Threads threads(2);
  distil({kHeads, kHeadDim, kHeadDim, kQueries, kKeys, q.data(), k.data(), q.data(), k.data()}, dq.data(), dk.data(),
         threads);
  for (const float each : dq) EXPECT_EQ(each, 0);
  for (const float each : dk) EXPECT_EQ(each, 0);
}

}  // namespace
}  // namespace reel::predict
