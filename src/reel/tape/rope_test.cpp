#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using kernels::Pairing;
using testing::Arrays;
using testing::check;
using testing::Tensors;
using Table = std::deque<Parameter>;

// cos and sin are rounded to f32 once.
constexpr double kHalfUlp = 6e-8;

TEST(RopeTables, OneAxisIsThePositionTimesThePowersOfTheta) {
  const auto angles = kernels::rope_1d(50, 10, 10000.0);
  ASSERT_EQ(angles->period, 50);
  ASSERT_EQ(angles->cos.size(), 50u * 5);
  ASSERT_EQ(angles->sin.size(), 50u * 5);
  EXPECT_EQ(angles->heads, -1);
  EXPECT_EQ(angles->pairing, Pairing::kInterleaved);
  for (std::size_t p = 0; p < 50; ++p) {
    for (std::size_t i = 0; i < 5; ++i) {
      const double angle = static_cast<double>(p) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 10.0);
      EXPECT_NEAR(angles->cos[p * 5 + i], std::cos(angle), kHalfUlp);
      EXPECT_NEAR(angles->sin[p * 5 + i], std::sin(angle), kHalfUlp);
    }
  }
}

// head_dim 32: rows and columns get 2 * (32 / 6) = 10 numbers each, frames the remaining 12.
TEST(RopeTables, ThreeAxesShareTheHeadAsInWan) {
  const std::size_t frames = 3, rows = 2, columns = 5;
  const auto angles = kernels::rope_3d(3, 2, 5, 32, 10000.0);
  ASSERT_EQ(angles->period, 30);
  ASSERT_EQ(angles->cos.size(), 30u * 16);
  const auto expect_angle = [&](std::size_t at, std::size_t position, double exponent) {
    const double angle = static_cast<double>(position) * std::pow(10000.0, -exponent);
    EXPECT_NEAR(angles->cos[at], std::cos(angle), kHalfUlp) << at;
    EXPECT_NEAR(angles->sin[at], std::sin(angle), kHalfUlp) << at;
  };
  for (std::size_t t = 0; t < frames; ++t) {
    for (std::size_t y = 0; y < rows; ++y) {
      for (std::size_t x = 0; x < columns; ++x) {
        const std::size_t row = ((t * rows + y) * columns + x) * 16;
        for (std::size_t i = 0; i < 6; ++i) expect_angle(row + i, t, 2.0 * static_cast<double>(i) / 12.0);
        for (std::size_t i = 0; i < 5; ++i) {
          expect_angle(row + 6 + i, y, 2.0 * static_cast<double>(i) / 10.0);
          expect_angle(row + 11 + i, x, 2.0 * static_cast<double>(i) / 10.0);
        }
      }
    }
  }
}

TEST(Rope, TurnsTheFirstHeadsAndCopiesTheOthers) {
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalves}) {
    for (const std::int64_t heads : {-1, 0, 1, 3, 9}) {
      SCOPED_TRACE(fmt::format("pairing {}, {} heads turned", static_cast<int>(pairing), heads));
      const auto angles = kernels::rope_1d(5, 6, 100.0);
      angles->pairing = pairing;
      angles->heads = heads;
      check([&](Tape& t, const Tensors& x, Table&) { return rope(t, x[0], angles); }, {{2, 5, 3, 6}}, {},
            [&](const Arrays& x, const Arrays&) { return reference::rope(x[0], *angles); });
    }
  }
}

TEST(Rope, ATableShorterThanTheSequenceRepeats) {
  check([](Tape& t, const Tensors& x, Table&) { return rope(t, x[0], kernels::rope_3d(1, 3, 1, 8, 100.0)); },
        {{2, 6, 2, 8}}, {},
        [](const Arrays& x, const Arrays&) { return reference::rope(x[0], *kernels::rope_3d(1, 3, 1, 8, 100.0)); });
}

// An entry of 4 tokens and a table of 6: the second entry would begin in the middle of the table.
TEST(Rope, EveryBatchEntryBeginsWithTheTable) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {.gradients = false});
  EXPECT_DEATH(rope(tape, tape.zeros({2, 4, 1, 8}), kernels::rope_1d(6, 8, 100.0)), "period");
  const Tensor x = tape.copy_in({1, 4, 1, 8}, testing::random_values({1, 4, 1, 8}, 1));
  testing::expect_same_bits(rope(tape, x, kernels::rope_1d(6, 8, 100.0)).span(),
                            rope(tape, x, kernels::rope_1d(4, 8, 100.0)).span());
}

// What rotary positions are for: scores depend on the distance alone.
TEST(Rope, ScoresDependOnTheDistanceAlone) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {.gradients = false});
  const std::int64_t tokens = 9, dim = 16;
  const std::vector<float> q = testing::random_values({dim}, 1), k = testing::random_values({dim}, 2);
  const auto everywhere = [&](const std::vector<float>& head) {  // the same head at every position
    std::vector<float> all;
    for (std::int64_t t = 0; t < tokens; ++t) all.insert(all.end(), head.begin(), head.end());
    return rope(tape, tape.copy_in({1, tokens, 1, dim}, all), kernels::rope_1d(tokens, dim, 10000.0));
  };
  const Tensor turned_q = everywhere(q), turned_k = everywhere(k);
  const auto score = [&](std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t c = 0; c < dim; ++c) {
      sum += static_cast<double>(turned_q.data()[i * dim + c]) * turned_k.data()[j * dim + c];
    }
    return sum;
  };
  for (std::int64_t i = 0; i + 3 < tokens; ++i) EXPECT_NEAR(score(i, i + 3), score(0, 3), 1e-5);
}

}  // namespace
}  // namespace reel::tape
