#include "reel/predict/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/random.h"

namespace reel::predict {
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

TEST(Largest, AreInOrderAndOfEqualOnesTheFirst) {
  const std::vector<float> values = {1, 3, 2, 3, 0, 2, 2};
  EXPECT_EQ(largest(values, 0), (std::vector<std::int32_t>{}));
  EXPECT_EQ(largest(values, 1), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(largest(values, 4), (std::vector<std::int32_t>{1, 2, 3, 5}));
  EXPECT_EQ(largest(values, 7), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Recall, IsTheShareOfTheBestThatIsFound) {
  const std::vector<float> truth = {8, 7, 6, 5, 4, 3, 2, 1}, other = {8, 1, 6, 2, 7, 3, 4, 5};
  EXPECT_EQ(recall(truth, truth, 3), 1);
  EXPECT_NEAR(recall(truth, other, 3), 2.0 / 3, 1e-12);
}

TEST(BlockSums, TheLastBlockIsShort) {
  const std::vector<float> ones(130, 1.0f);
  EXPECT_EQ(block_sums(ones), (std::vector<float>{64, 64, 2}));
  EXPECT_EQ(block_sums(ones, 128), (std::vector<float>{128, 2}));
}

}  // namespace
}  // namespace reel::predict
