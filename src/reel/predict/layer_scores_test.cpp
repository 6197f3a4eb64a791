#include "reel/predict/layer_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/base/random.h"

namespace reel::predict {
namespace {

// One layer of 4 x 4 x 4 tokens, in an order that is not that of the raster.
struct ScoredLayer {
  explicit ScoredLayer(std::int64_t queries) {
    for (Buffer<float>* each : {&q, &k, &v}) *each = Buffer<float>(64 * 2 * 8);
    Random(1, 1).fill_normal(q);
    Random(1, 2).fill_normal(k);
    Random(1, 3).fill_normal(v);
    for (std::int32_t i = 0; i < 64; ++i) raster.push_back(63 - i);
    in = {.tokens = 64, .heads = 2, .head_dim = 8, .grid = {4, 4, 4}, .queries = queries, .seed = 5};
    in.q = q.data(), in.k = k.data(), in.v = v.data(), in.raster = raster;
  }
  LayerScores look(int count = 1) const {
    Threads threads(count);
    return look_at_scores(in, threads);
  }
  Buffer<float> q, k, v;
  std::vector<std::int32_t> raster;
  LayerInput in;
};

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

TEST(LayerScores, EqualScoresAreOneBinAndNotConcentrated) {
  ScoredLayer layer(16);
  layer.q.clear();
  const LayerScores seen = layer.look();
  EXPECT_EQ(seen.queries, 32);
  const auto bin =
      static_cast<std::size_t>(std::floor(LayerScores::kBins + LayerScores::kBinsPerDecade * std::log10(1 / 64.0)));
  EXPECT_NEAR(seen.histogram[bin], 32, 1e-9);
  EXPECT_EQ(seen.concentrated, 0);
  EXPECT_GT(seen.error_critical[0] / 32, 0.5) << "any few keys are as bad as any others";
  EXPECT_NEAR(sum_of(seen.critical_at), 32, 1e-9);
}

TEST(LayerScores, OneKeyThatTakesAllIsTheOnlyCriticalOne) {
  ScoredLayer layer(64);
  layer.k.clear();
  for (std::int64_t token = 0; token < 64; ++token) {
    for (std::int64_t d = 0; d < 16; ++d) layer.q[static_cast<std::size_t>(token * 16 + d)] = 1;
  }
  // Token 63 is at the corner (0, 0, 0).
  for (std::size_t d = 0; d < 16; ++d) layer.k[63 * 16 + d] = 20;
  const LayerScores seen = layer.look();
  EXPECT_EQ(seen.concentrated, 128);
  EXPECT_LT(seen.error_critical[0], 1e-3);
  EXPECT_GT(seen.error_random[0] / 128, 0.5);
  // Queries at distance d from the corner are as frequent as tokens there, about: 1 of 64 at 0, 3 of 64 at (0, 1].
  EXPECT_NEAR(seen.critical_at[0] / 128, 1.0 / 64, 0.04);
  EXPECT_NEAR(seen.critical_at[1] / 128, 3.0 / 64, 0.06);
  EXPECT_NEAR(sum_of(seen.critical_at), 128, 1e-9);
  EXPECT_EQ(seen.critical_at.size(), 7u) << "the diagonal is 5.2 tokens long";
}

TEST(LayerScores, ErrorsAreThoseOfAttentionOverTheHeaviestKeys) {
  ScoredLayer layer(1);
  const LayerScores seen = layer.look();
  // The same in double precision, for the two queries (one a head) that are drawn.
  Threads threads(1);
  std::vector<double> expected(LayerScores::kKept.size());
  for (std::int64_t head = 0; head < 2; ++head) {
    const auto token = static_cast<std::int32_t>(Random(5).below(static_cast<std::uint64_t>(head), 64));
    const Buffer<float> weights = score_rows(layer.in, head, std::span(&token, 1), threads);
    std::vector<std::int32_t> order(64);
    for (std::int32_t i = 0; i < 64; ++i) order[static_cast<std::size_t>(i)] = i;
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return weights[static_cast<std::size_t>(a)] > weights[static_cast<std::size_t>(b)];
    });
    const auto output = [&](std::size_t keys) {
      std::vector<double> sum(8);
      double mass = 0;
      for (std::size_t i = 0; i < keys; ++i) {
        const auto key = static_cast<std::size_t>(order[i]);
        double score = 0;
        for (std::size_t d = 0; d < 8; ++d) {
          const std::size_t at = static_cast<std::size_t>(head) * 8 + d;
          score += static_cast<double>(layer.q[static_cast<std::size_t>(token) * 16 + at]) *
                   static_cast<double>(layer.k[key * 16 + at]);
        }
        const double weight = std::exp(score / std::sqrt(8.0));
        mass += weight;
        for (std::size_t d = 0; d < 8; ++d) {
          sum[d] += weight * static_cast<double>(layer.v[key * 16 + static_cast<std::size_t>(head) * 8 + d]);
        }
      }
      for (double& x : sum) x /= mass;
      return sum;
    };
    const std::vector<double> all = output(64);
    const std::size_t counts[] = {3, 6, 13, 32};  // 5, 10, 20 and 50 % of 64
    for (std::size_t i = 0; i < 4; ++i) {
      const std::vector<double> some = output(counts[i]);
      double difference = 0, norm = 0;
      for (std::size_t d = 0; d < 8; ++d) difference += std::pow(some[d] - all[d], 2), norm += all[d] * all[d];
      expected[i] += std::sqrt(difference / norm);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(seen.error_critical[i], expected[i], 1e-4) << i;  // f32 sums
}

TEST(LayerScores, AnyNumberOfThreadsGivesTheSameBits) {
  const ScoredLayer layer(16);
  const LayerScores one = layer.look(1), three = layer.look(3);
  EXPECT_EQ(one.histogram, three.histogram);
  EXPECT_EQ(one.error_critical, three.error_critical);
  EXPECT_EQ(one.error_random, three.error_random);
  EXPECT_EQ(one.critical_at, three.critical_at);
}

TEST(LayerScores, QueriesWithoutFiniteScoresDoNotCount) {
  ScoredLayer layer(16);
  for (std::size_t token = 0; token < 64; ++token) layer.q[token * 16 + 3] = NAN;  // of head 0
  const LayerScores seen = layer.look();
  EXPECT_EQ(seen.queries, 16);
  EXPECT_TRUE(std::isfinite(sum_of(seen.error_random)));
}

TEST(LayerScores, NoQueryIsLookedAtTwice) {
  ScoredLayer layer(1000);  // of 64: all of them, whatever the seed
  const LayerScores all = layer.look();
  EXPECT_EQ(all.queries, 2 * 64);
  layer.in.seed = 6;
  EXPECT_EQ(layer.look().needed, all.needed);
}

TEST(LayerScores, TheCurveIsTheMassOfTheHeaviestKeysAndNeededTheirNumber) {
  ScoredLayer layer(16);
  layer.q.clear();  // equal scores: any share of the keys carries that share of the mass
  const LayerScores seen = layer.look();
  EXPECT_NEAR(seen.needed / 32, 58.0 / 64, 1e-9) << "57.6 of 64 keys carry 0.9";
  ASSERT_EQ(seen.carried.size(), LayerScores::kCurve.size());
  EXPECT_NEAR(seen.carried[8] / 32, 0.5, 1e-6);
  EXPECT_NEAR(seen.carried.back() / 32, 1, 1e-6);
  layer.in.v = nullptr;
  EXPECT_TRUE(layer.look().error_critical.empty());
}

}  // namespace
}  // namespace reel::predict
