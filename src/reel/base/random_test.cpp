#include "reel/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace reel {
namespace {

// Known answers of the Random123 distribution for philox4x32-10 with a zero key and a zero counter.
TEST(Random, MatchesThePublishedPhilox) {
  const Random random(0, 0);
  EXPECT_EQ(random.bits(0), 0x6627e8d5u);
  EXPECT_EQ(random.bits(1), 0xe169c58du);
  EXPECT_EQ(random.bits(2), 0xbc57ac4cu);
  EXPECT_EQ(random.bits(3), 0x9b00dbd8u);
}

TEST(Random, AnyIndexIsReachedDirectly) {
  const Random random(7, 3);
  std::vector<float> uniform(101), normal(101);
  for (std::uint64_t first : {0, 1, 2, 3, 6}) {
    random.fill_uniform(uniform, first);
    random.fill_normal(normal, first);
    for (std::size_t i = 0; i < uniform.size(); ++i) {
      EXPECT_EQ(uniform[i], random.uniform(first + i));
      EXPECT_EQ(normal[i], random.normal(first + i));
    }
  }
}

TEST(Random, NormalNumbersHaveTheRightMoments) {
  const Random random(1);
  std::vector<float> x(200000);
  random.fill_normal(x);
  double sum = 0, square = 0, fourth = 0, neighbours = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    square += double(x[i]) * x[i];
    fourth += std::pow(double(x[i]), 4);
    if (i > 0) neighbours += double(x[i]) * x[i - 1];
  }
  const double n = static_cast<double>(x.size());  // bounds: about five standard errors
  EXPECT_NEAR(sum / n, 0, 0.012);
  EXPECT_NEAR(square / n, 1, 0.016);
  EXPECT_NEAR(fourth / n, 3, 0.12);
  EXPECT_NEAR(neighbours / n, 0, 0.012);
}

TEST(Random, BelowStaysInRangeAndReachesEveryValue) {
  const Random random(2);
  std::vector<int> seen(7);
  for (std::uint64_t i = 0; i < 1000; ++i) ++seen[random.below(i, 7)];
  for (int count : seen) EXPECT_GT(count, 80);
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(Random(1, 0).bits(0), Random(1, 1).bits(0));
  EXPECT_NE(Random(1, 0).bits(0), Random(2, 0).bits(0));
}

}  // namespace
}  // namespace reel
