#include "reel/study/study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "reel/base/random.h"

namespace reel::study {
namespace {

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

struct Head {
  std::int64_t tokens, dim;
  std::vector<float> q, k, v;
  lists::TokenOrder order;

  Head(std::int64_t token_count, std::int64_t head_dim, float spread, std::uint64_t seed = 1)
      : tokens(token_count), dim(head_dim), order(lists::tile_order({token_count, 1, 1}, {64, 1, 1})) {
    std::uint64_t stream = 0;
    for (std::vector<float>* each : {&q, &k, &v}) {
      each->resize(static_cast<std::size_t>(tokens * dim));
      Random(seed, stream++).fill_normal(*each);
    }
    for (float& x : q) x *= spread;
  }
  StudyInput input() const {
    return {.order = &order, .head_dim = dim, .q = q.data(), .k = k.data(), .v = v.data(), .groups = 4, .queries = 64};
  }
  HeadStudy study(int threads = 2) const { return study_of(input(), threads); }
  static HeadStudy study_of(const StudyInput& in, int count = 2) {
    Threads threads(count);
    return study_head(in, threads);
  }
};

// q k^T / sqrt(dim) of q ~ N(0, s^2), k ~ N(0, 1) is N(0, (s |q| / sqrt(dim))^2) for a query, near N(0, s^2). With the
// share x = P(score > t) of the keys, the mass above t is P(score > t - s^2): Phi(Phi^-1(x) + s). So the mass m needs
// the share Phi(Phi^-1(m) - s).
TEST(Study, GaussianScoresNeedWhatTheoryGives) {
  constexpr double kNine = 1.2815515655446004;  // Phi^-1(0.9)
  for (const float spread : {0.5f, 1.5f}) {
    const Head head(2048, 128, spread);
    const HeadStudy study = head.study();
    const double expected = phi(kNine - static_cast<double>(spread));
    // 64 queries whose lengths differ by 1/16 each, and sums over 2048 keys: 0.01 is three standard deviations.
    EXPECT_NEAR(study.queries.needed / 64, expected, 0.01) << spread;
    // The spread is known exactly, up to the covariance of 2048 keys: |q| / sqrt(dim) of the four queries of each
    // group.
    double lengths = 0, gaussian = 0;
    for (const std::int64_t g : lists::spread_groups(head.order, 4, 0)) {
      for (std::int64_t i = 0; i < 64; i += 16) {
        const float* q = &head.q[static_cast<std::size_t>((g * 64 + i) * 128)];
        const double length = std::sqrt(std::inner_product(q, q + 128, q, 0.0) / 128);
        lengths += length / 16;
        gaussian += phi(kNine - length) / 16;
      }
    }
    EXPECT_NEAR(study.spread, lengths, 0.02 * lengths);
    EXPECT_NEAR(study.gaussian, gaussian, 0.01) << spread;
    EXPECT_NEAR(study.queries.carried[4] / 64, phi(-kNine + static_cast<double>(spread)), 0.015) << "mass of 10 %";
    // Keys of one query say nothing about those of another: its critical keys are the other's by chance.
    EXPECT_NEAR(study.overlap, expected, 0.05) << spread;
    EXPECT_NEAR(study.predictor("random").covered, 0.1, 0.02);
    EXPECT_NEAR(study.predictor("random").recall, 0.1, 0.05);
  }
}

TEST(Study, GaussianKeysInvertsItsTable) {
  EXPECT_NEAR(gaussian_keys(0.9, 1), phi(0.2815515655446004), 1e-9);
  EXPECT_NEAR(gaussian_keys(0.5, 0), 0.5, 1e-9);
  EXPECT_EQ(gaussian_keys(1, 3), 1);
}

TEST(Study, TheClosedFormFindsAllKeysOfScoresOfItsRank) {
  Head head(1024, 32, 1);
  constexpr std::size_t kRank = 5;
  for (std::vector<float>* rows : {&head.q, &head.k}) {  // combinations of five directions, others for q than for k
    std::vector<float> directions(kRank * 32);
    Random(9, rows == &head.q ? 1 : 2).fill_normal(directions);
    for (std::size_t t = 0; t < 1024; ++t) {
      float* row = rows->data() + t * 32;
      const std::vector<float> factors(row, row + kRank);
      for (std::size_t d = 0; d < 32; ++d) {
        row[d] = 0;
        for (std::size_t r = 0; r < kRank; ++r) row[d] += factors[r] * directions[r * 32 + d];
      }
    }
  }
  const HeadStudy study = head.study();
  EXPECT_EQ(study.predictor("rank 8").recall, 1);
  EXPECT_EQ(study.predictor("rank 16").recall, 1);
  EXPECT_NEAR(study.predictor("rank 8").covered, study.predictor("true").covered, 1e-5);
  EXPECT_EQ(study.predictor("true").recall, 1);
}

TEST(Study, NoPredictorIsBetterThanTheTruthAndBlocksAreWorseThanKeys) {
  const HeadStudy study = Head(1000, 64, 2).study();  // a last group of 40 tokens, a last block of 104
  const PredictorStudy& best = study.predictor("true");
  for (const PredictorStudy& each : study.predictors) {
    EXPECT_LE(each.covered, best.covered + 1e-6) << each.name;
    EXPECT_GE(each.needed, best.needed - 1e-6) << each.name;
    EXPECT_LE(each.recall, 1) << each.name;
    EXPECT_GT(each.error, 0) << each.name;
  }
  EXPECT_LT(study.predictor("rank 8").covered, study.predictor("rank 32").covered);
  ASSERT_EQ(study.blocks.size(), 3u);
  EXPECT_NEAR(study.blocks[0].covered, best.covered, 1e-6);
  EXPECT_GT(study.blocks[0].covered, study.blocks[1].covered);
  EXPECT_GT(study.blocks[1].covered, study.blocks[2].covered);
  EXPECT_LE(study.blocks[2].needed, 1);
}

// Every query looks at the key of its own place and nothing else: near, one key, and the output is its value.
TEST(Study, LookingAtOneselfIsLocalAndHasNoError) {
  Head head(512, 64, 1);
  head.order = lists::tile_order({8, 8, 8}, {4, 4, 4});
  for (std::size_t i = 0; i < head.q.size(); ++i) head.q[i] = 8 * head.k[i];
  StudyInput in = head.input();
  in.size = 0.25;  // room for the 64 keys that 64 queries look at
  const HeadStudy study = Head::study_of(in);
  EXPECT_LT(study.queries.needed / 64, 2.5 / 512);
  EXPECT_NEAR(study.queries.critical_at[0] / 64, 1, 0.1);
  EXPECT_LT(study.overlap, 0.2);
  EXPECT_LT(study.predictor("true").error, 1e-3);
  EXPECT_GT(study.predictor("nearest").covered, 0.5);
  EXPECT_GT(study.predictor("random").error, 0.5);
  EXPECT_LT(study.gaussian, 0.01) << "such a spread needs few keys in any case";
}

TEST(Study, WithoutValuesThereAreNoErrors) {
  const Head head(256, 16, 1);
  StudyInput in = head.input();
  in.v = nullptr;
  const HeadStudy study = Head::study_of(in);
  EXPECT_TRUE(std::isnan(study.predictor("true").error));
  EXPECT_TRUE(study.queries.error_critical.empty());
}

TEST(Study, SmallHeadsAndFewTokensWork) {
  for (const std::int64_t tokens : {1, 2, 65}) {
    const HeadStudy study = Head(tokens, 4, 1).study();
    EXPECT_EQ(study.predictor("rank 4").recall, 1) << tokens;
    EXPECT_EQ(study.queries.queries, std::min<std::int64_t>(tokens, 64));
    EXPECT_LE(study.queries.needed / static_cast<double>(study.queries.queries), 1);
    EXPECT_LE(study.predictor("true").needed, 1);
    EXPECT_GE(study.predictor("true").needed * static_cast<double>(tokens), 0.9 - 1e-9) << "0.9 of the only key";
  }
}

TEST(Study, AnyNumberOfThreadsGivesTheSameBits) {
  const Head head(700, 40, 1);
  const HeadStudy one = head.study(1), three = head.study(3);
  EXPECT_EQ(one.queries.carried, three.queries.carried);
  EXPECT_EQ(one.overlap, three.overlap);
  for (std::size_t i = 0; i < one.predictors.size(); ++i) {
    EXPECT_EQ(one.predictors[i].carried, three.predictors[i].carried);
    EXPECT_EQ(one.predictors[i].error, three.predictors[i].error);
  }
}

}  // namespace
}  // namespace reel::study
