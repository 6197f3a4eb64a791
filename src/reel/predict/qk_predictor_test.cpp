#include "reel/predict/qk_predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/predict/testing.h"

namespace reel::predict {
namespace {

using kernels::testing::expect_same_bits;
using testing::Layer;

constexpr ModelHeads kQkShape{2, 3, 16};

Seen seen(const Layer& x, int layer = 0) { return {layer, x.batch, x.tokens, x.q.data(), x.k.data(), nullptr}; }

// low_q and low_k of heads 2 and 0, of some tokens.
struct LowRows {
  std::vector<float> q, k;
  std::vector<std::int32_t> rows = {7, 3, 99, 99};
  std::vector<std::int64_t> heads = {2, 0};
  std::int64_t rank;

  LowRows(const Predictor& predictor, const Layer& x, std::int64_t width, int layer = 0) : rank(width) {
    Threads threads(2);
    q.assign(static_cast<std::size_t>(x.batch * 2 * 4 * rank), 1e9f);  // whatever is not written is seen
    k.assign(static_cast<std::size_t>(x.batch * 2 * x.tokens * rank), 1e9f);
    predictor.predict(seen(x, layer), heads, rows, rank, q.data(), k.data(), threads);
  }
  double score(std::int64_t item, std::int64_t row, std::int64_t key, std::int64_t tokens) const {
    const float* a = &q[static_cast<std::size_t>((item * 4 + row) * rank)];
    const float* b = &k[static_cast<std::size_t>((item * tokens + key) * rank)];
    return std::inner_product(a, a + rank, b, 0.0);
  }
};

TEST(QkPredictor, FullRankGivesScoresThatDifferFromTheTrueOnesByAConstantOfTheQuery) {
  Threads threads(1);
  QkPredictor predictor(kQkShape, 16);
  const Layer x(2, 100, kQkShape, 1);
  EXPECT_FALSE(predictor.knows(0));
  predictor.learn(seen(x), false, threads);
  EXPECT_FALSE(predictor.knows(0)) << "only what is looked at teaches";
  predictor.learn(seen(x), true, threads);
  EXPECT_TRUE(predictor.knows(0));
  EXPECT_FALSE(predictor.knows(1));
  for (const std::int64_t width : {16, 24}) {  // zeros beyond the rank of a head
    const LowRows low(predictor, x, width);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t r = 0; r < 4; ++r) {
          std::vector<double> difference;
          for (std::int64_t j = 0; j < 100; ++j) {
            const float* q =
                &x.q[x.at(b, low.rows[static_cast<std::size_t>(r)], low.heads[static_cast<std::size_t>(i)])];
            const float* k = &x.k[x.at(b, j, low.heads[static_cast<std::size_t>(i)])];
            difference.push_back(low.score(b * 2 + i, r, j, 100) - std::inner_product(q, q + 16, k, 0.0));
          }
          for (const double each : difference) EXPECT_NEAR(each, difference[0], 1e-5);
        }
      }
    }
  }
}

TEST(QkPredictor, TakesTheRankThatTheSpectrumAsksFor) {
  Threads threads(1);
  QkPredictor predictor({1, 2, 64}, 0);
  Layer x(1, 300, {1, 2, 64}, 1);
  for (std::int64_t i = 0; i < 300; ++i) {  // head 0 lives in 4 directions
    std::fill_n(&x.q[x.at(0, i, 0) + 4], 60, 0.0f);
    std::fill_n(&x.k[x.at(0, i, 0) + 4], 60, 0.0f);
  }
  predictor.learn(seen(x), true, threads);
  EXPECT_EQ(predictor.rank(0, 0), 8);
  EXPECT_EQ(predictor.rank(0, 1), 32);
}

TEST(QkPredictor, ForgetsOldClips) {
  Threads threads(1);
  QkPredictor moved(kQkShape, 4), fresh(kQkShape, 4);
  moved.learn(seen(Layer(1, 100, kQkShape, 1)), true, threads);
  const Layer now(1, 100, kQkShape, 2);
  for (int i = 0; i < 70; ++i) moved.learn(seen(now), true, threads);
  fresh.learn(seen(now), true, threads);
  const LowRows a(moved, now, 4), b(fresh, now, 4);
  for (std::int64_t j = 0; j < 100; ++j) EXPECT_NEAR(a.score(0, 0, j, 100), b.score(0, 0, j, 100), 1e-4);
}

TEST(QkPredictor, SavedAndLoadedPredictsTheSameBits) {
  const std::string path = ::testing::TempDir() + "reel_qk_predictor.safetensors";
  Threads threads(1);
  QkPredictor saved(kQkShape, 0), loaded(kQkShape, 0);
  for (std::uint64_t i = 0; i < 3; ++i) saved.learn(seen(Layer(1, 100, kQkShape, i), 1), true, threads);
  const auto tensors = saved.save();
  SafetensorsWriter writer;
  for (const auto& each : tensors) writer.add(each.name, each.shape, each.values);
  writer.write(path);
  loaded.load(SafetensorsFile::open(path));
  EXPECT_FALSE(loaded.knows(0));
  EXPECT_TRUE(loaded.knows(1));
  const Layer x(2, 100, kQkShape, 9);
  for (int more = 0; more < 2; ++more) {  // and continues to learn the same
    const LowRows a(saved, x, 16, 1), b(loaded, x, 16, 1);
    expect_same_bits(a.q, b.q);
    expect_same_bits(a.k, b.k);
    for (QkPredictor* each : {&saved, &loaded}) each->learn(seen(x, 1), true, threads);
  }
  QkPredictor other({2, 3, 8}, 0);
  const std::string message = message_of([&] { other.load(SafetensorsFile::open(path)); });
  EXPECT_NE(message.find("has no moments of q and k for this model"), std::string::npos) << message;
  std::filesystem::remove(path);
}

TEST(QkPredictor, ClipsThatAreNotFiniteTeachNothing) {
  Threads threads(1);
  QkPredictor predictor(kQkShape, 8), spared(kQkShape, 8);
  const Layer x(1, 100, kQkShape, 1);
  for (QkPredictor* each : {&predictor, &spared}) each->learn(seen(x), true, threads);
  for (const float value : {std::nanf(""), INFINITY, 1e30f}) {
    Layer bad = x;
    bad.k[bad.at(0, 50, 1)] = value;
    predictor.learn(seen(bad), true, threads);
    predictor.learn(seen(bad, 1), true, threads);
  }
  EXPECT_FALSE(predictor.knows(1));
  const LowRows a(predictor, x, 8), b(spared, x, 8);
  expect_same_bits(a.q, b.q);
  expect_same_bits(a.k, b.k);
}

}  // namespace
}  // namespace reel::predict
