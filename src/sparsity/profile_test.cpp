#include "sparsity/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace reel::sparsity {
namespace {

TEST(KeysForMass, AgreesWithSorting) {
  std::vector<float> weights(5000);
  Random(1).fill_normal(weights);
  for (float& w : weights) w = std::exp(2 * w);
  std::vector<float> sorted = weights;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double all = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  for (const double share : {0.5, 0.9, 0.99}) {
    double sum = 0;
    std::size_t count = 0;
    while (sum < share * all) sum += static_cast<double>(sorted[count++]);
    EXPECT_NEAR(keys_for_mass(weights, {}, share), static_cast<double>(count), 0.005 * static_cast<double>(count) + 1);
    EXPECT_NEAR(mass_of_keys(weights, {}, static_cast<double>(count)), share, 0.003);
  }
  EXPECT_NEAR(keys_for_mass(weights, {}, 1.0), 5000, 1);
}

TEST(KeysForMass, AnotherOrderNeedsMoreKeys) {
  std::vector<float> weights(1000), order(1000);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = i < 100 ? 1.0f : 0.001f;
    order[i] = static_cast<float>(1 + i);  // the heavy ones come last
  }
  EXPECT_NEAR(keys_for_mass(weights, {}, 0.9), 91, 2);
  EXPECT_GT(keys_for_mass(weights, order, 0.9), 980);
}

// A head whose queries of a group look at `heavy` keys; the predictor sees q and k themselves.
TEST(ProfileHead, SeesWhatWasPutIn) {
  const std::int64_t tokens = 512, dim = 16;
  std::vector<float> q(tokens * dim), k(tokens * dim);
  Random(1).fill_normal(k);
  for (std::int64_t i = 0; i < tokens; ++i) {  // every query asks for key (group * 37) % tokens
    const std::int64_t wanted = i / 64 * 37 % tokens;
    for (std::int64_t j = 0; j < dim; ++j) q[i * dim + j] = 4 * k[wanted * dim + j];
  }
  Threads threads(2);
  ProfileInput in;
  in.keys = tokens, in.head_dim = dim, in.rank = dim;
  in.q = q.data(), in.k = k.data(), in.q_stride = in.k_stride = dim;
  in.scale = 0.25f;
  in.groups = {{0, 64}, {192, 256}, {448, 512}};
  in.samples = {1};
  std::vector<float> low_q;  // the first query of each of these groups
  for (const auto& [first, end] : in.groups) low_q.insert(low_q.end(), &q[first * dim], &q[first * dim] + dim);
  in.low_q = low_q.data(), in.low_k = k.data();
  in.size = 0.05;
  const HeadProfile seen = profile_head(in, threads);
  EXPECT_LT(seen.needed, 0.02);
  EXPECT_GT(seen.query_sparsity, 0.98);
  EXPECT_GT(seen.overlap, 0.99);
  EXPECT_NEAR(seen.predicted[0].needed, seen.needed, 1e-6);  // a perfect predictor
  EXPECT_NEAR(seen.predicted[0].covered, seen.covered, 1e-6);
  EXPECT_NEAR(seen.predicted[0].recall, 1.0, 1e-6);
  std::vector<float> blind(tokens * dim);
  Random(3).fill_normal(blind);
  in.low_q = blind.data();
  const HeadProfile blinded = profile_head(in, threads);
  EXPECT_LT(blinded.predicted[0].covered, 0.5);
  EXPECT_GT(blinded.predicted[0].needed, 5 * blinded.needed);
}

}  // namespace
}  // namespace reel::sparsity
