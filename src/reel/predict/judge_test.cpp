#include "reel/predict/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "reel/base/random.h"

namespace reel::predict {
namespace {

// What a list carries and finds, key by key in double precision.
struct Slow {
  std::vector<double> weights;
  std::vector<std::int32_t> list(std::span<const float> order, const std::set<std::int32_t>& held,
                                 std::size_t size) const {
    std::vector<std::int32_t> keys(weights.size());
    std::iota(keys.begin(), keys.end(), 0);
    std::stable_sort(keys.begin(), keys.end(), [&](std::int32_t a, std::int32_t b) {
      if (held.contains(a) != held.contains(b)) return held.contains(a);
      return order[static_cast<std::size_t>(a)] > order[static_cast<std::size_t>(b)];
    });
    keys.resize(size);
    return keys;
  }
  double mass(const std::vector<std::int32_t>& keys) const {
    double sum = 0;
    for (const std::int32_t key : keys) sum += weights[static_cast<std::size_t>(key)];
    return sum / std::accumulate(weights.begin(), weights.end(), 0.0);
  }
};

TEST(Judge, AgreesWithListsWrittenOut) {
  constexpr std::int64_t kGroup = 7, kAll = 333, kWide = 16;
  std::vector<float> q(kGroup * kWide), k(kAll * kWide), order(kAll);
  Random(1).fill_normal(q);
  Random(2).fill_normal(k);
  Random(3).fill_uniform(order);
  Threads threads(2);
  const std::set<std::int32_t> held = {3, 4, 5, 70, 332};
  const Judge judge({q.data(), k.data(), kWide, kWide, kGroup, kAll, kWide, 0.5f}, {3, 4, 5, 70, 332}, threads);
  ASSERT_TRUE(judge.finite());
  Slow slow{std::vector<double>(kAll)};
  for (std::size_t i = 0; i < judge.rows().size(); ++i) slow.weights[i % kAll] += static_cast<double>(judge.rows()[i]);
  for (const double share : {0.001, 0.1, 0.5, 1.0}) {
    const auto size = std::max<std::size_t>(5, static_cast<std::size_t>(std::ceil(share * kAll)));
    for (const std::span<const float> by : {std::span<const float>(order), std::span<const float>(judge.weights())}) {
      EXPECT_NEAR(judge.covered(by, share), slow.mass(slow.list(by, held, size)), 0.005) << share;
      auto best = slow.list(judge.weights(), {}, size), found = slow.list(by, {}, size);
      std::sort(best.begin(), best.end());
      std::sort(found.begin(), found.end());
      std::vector<std::int32_t> both;
      std::set_intersection(best.begin(), best.end(), found.begin(), found.end(), std::back_inserter(both));
      EXPECT_NEAR(judge.recall(by, share), static_cast<double>(both.size()) / static_cast<double>(size), 1e-9);
    }
  }
  for (const double mass : {0.5, 0.9}) {
    std::size_t keys = 5;
    while (slow.mass(slow.list(order, held, keys)) < mass) ++keys;
    EXPECT_NEAR(judge.needed(order, mass) * kAll, static_cast<double>(keys - 5), 2) << mass;
    EXPECT_GE(judge.needed_tiles(order, mass) + 3.0 * 64 / kAll, judge.needed(order, mass)) << "three tiles are held";
  }
}

TEST(Judge, SharesAreRoundedUpAndScoresMustBeFinite) {
  EXPECT_EQ(keys_of_share(0.1, 1024), 103u);
  EXPECT_EQ(keys_of_share(0.5, 10), 5u);
  EXPECT_EQ(keys_of_share(0, 10), 1u);
  EXPECT_EQ(keys_of_share(2, 10), 10u);
  Threads threads(1);
  const std::vector<float> rows = {1, std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(Judge({rows.data(), rows.data(), 1, 1, 2, 2, 1, 1}, {}, threads).finite());
}

}  // namespace
}  // namespace reel::predict
