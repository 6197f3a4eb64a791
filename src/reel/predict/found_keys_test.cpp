#include "reel/predict/found_keys.h"

#include <gtest/gtest.h>

#include <numeric>

#include "reel/predict/hidden_testing.h"
#include "reel/predict/qk_predictor.h"

namespace reel::predict {
namespace {

using testing::WanLayer;

// Groups that hold every query of the clip: what hidden_testing.h computes one by one, in double precision.
TEST(FoundKeys, AreThoseOfDoublePrecision) {
  WanLayer layer(1, 16, 0);
  const auto learnt = layer.clip(1), clip = layer.clip(2);
  QkPredictor predictor(layer.shape, 4);
  predictor.learn(learnt->seen, true, layer.threads);
  std::vector<std::int32_t> all(WanLayer::kTokens);
  std::iota(all.begin(), all.end(), 0);
  Buffer<float> low_q(WanLayer::kTokens * 4), low_k(WanLayer::kTokens * 4);
  const std::int64_t head = 0;
  predictor.predict(clip->seen, std::span(&head, 1), all, 4, low_q.data(), low_k.data(), layer.threads);
  ProfileInput in;
  in.keys = WanLayer::kTokens, in.head_dim = 16, in.rank = 4;
  in.q = clip->seen.q, in.k = clip->seen.k, in.q_stride = in.k_stride = 16, in.scale = 0.25f;
  // hidden_testing.h looks at tokens 3, 11, 19, ...: groups of one query are queries.
  std::vector<float> some;
  for (std::int64_t t = 3; t < WanLayer::kTokens; t += 8) {
    in.groups.emplace_back(t, t + 1);
    some.insert(some.end(), low_q.data() + t * 4, low_q.data() + (t + 1) * 4);
  }
  in.low_q = some.data(), in.low_k = low_k.data();
  const FoundKeys found = found_keys(in, layer.threads);
  const testing::Found want = layer.found(predictor, *clip);
  EXPECT_NEAR(found.recall, want.recall, 2e-3) << "a key in 52 of one query in ten, by the rounding of f32";
  EXPECT_NEAR(found.query_mass, want.mass, 1e-3);
  EXPECT_NEAR(found.group_mass, found.query_mass, 1e-3) << "a query is a group of one, up to the width of a bucket";
  EXPECT_LT(found.recall, 0.95);
  EXPECT_GT(found.recall, 0.2);
}

// Every query of a group wants a key of its own; the list of the group has room for half of them.
TEST(FoundKeys, ListsAreJudgedByTheirWeightsAndTheOwnTileTakesItsPlaces) {
  constexpr std::int64_t kTokens = 40, kDim = 40;
  std::vector<float> q(kTokens * kDim), k(kTokens * kDim);
  for (std::int64_t i = 0; i < kTokens; ++i) {
    k[static_cast<std::size_t>(i * kDim + i)] = 1;
    q[static_cast<std::size_t>(i * kDim + (i + 20) % kTokens)] = 1000;  // far, and nothing else
  }
  Threads threads(2);
  ProfileInput in;
  in.keys = kTokens, in.head_dim = kDim, in.rank = kDim;
  in.q = q.data(), in.k = k.data(), in.q_stride = in.k_stride = kDim;
  in.groups = {{0, 4}};
  in.low_q = q.data(), in.low_k = k.data();
  in.size = 0.15;  // 6 keys: 4 that are wanted and 2 that are not
  FoundKeys found = found_keys(in, threads);
  EXPECT_EQ(found.recall, 1);
  EXPECT_NEAR(found.group_mass, 1, 1e-6);
  EXPECT_NEAR(found.list_mass, 0.5, 1e-6) << "4 of the 6 are the own tile";
  const std::vector<std::int32_t> always = {21, 23};
  in.always = always;
  found = found_keys(in, threads);
  EXPECT_NEAR(found.list_mass, 0.5, 1e-6) << "as many, and both are wanted";
  in.size = 0.05;
  EXPECT_NEAR(found_keys(in, threads).list_mass, 1, 1e-6) << "2 of the 4, as the best 2";
}

}  // namespace
}  // namespace reel::predict
