#include "reel/predict/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/base/random.h"

namespace reel::predict {
namespace {

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
  in.size = 0.2;
  const HeadProfile seen = profile_head(in, threads);
  EXPECT_LT(seen.needed, 0.02);
  EXPECT_GT(seen.query_sparsity, 0.98);
  EXPECT_GT(seen.overlap, 0.99);
  EXPECT_NEAR(seen.predicted[0].needed, seen.needed, 2.0 / 512);  // a perfect predictor, and the own tile has nothing
  EXPECT_NEAR(seen.predicted[0].needed_tiles, 64.0 / 512, 0.01);
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
}  // namespace reel::predict
