#include "reel/plan/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "reel/base/random.h"
#include "reel/plan/samples.h"

namespace reel::plan {
namespace {

Items items_of(const std::vector<double>& weights) {
  Items items{static_cast<std::int64_t>(weights.size()), 1, {}};
  for (const double w : weights) items.weight.push_back(static_cast<float>(w));
  return items;
}

std::vector<int> counts_of(const Indices& bin, int bins) {
  std::vector<int> counts(static_cast<std::size_t>(bins), 0);
  for (const std::int32_t b : bin) ++counts[static_cast<std::size_t>(b)];
  return counts;
}

TEST(Balance, DealIsLongestFirst) {
  EXPECT_EQ(deal(items_of({5, 4, 3, 3, 3}), 2, Sizes::kAny), (Indices{0, 1, 1, 0, 1}));
  EXPECT_EQ(deal(items_of({9, 1, 1, 1}), 2, Sizes::kAny), (Indices{0, 1, 1, 1}));
  EXPECT_EQ(deal(items_of({9, 1, 1, 1}), 2, Sizes::kEqual), (Indices{0, 1, 1, 0}));
}

TEST(Balance, EqualCountsAreAsEqualAsWholeNumbersCanBe) {
  for (const int n : {1, 3, 7, 10, 11, 12}) {
    for (const int bins : {1, 2, 3, 4, 5}) {
      Items items = items_of(beta_densities(n, 7));
      Indices bin = deal(items, bins, Sizes::kEqual);
      Effort effort{1, 100000};
      search(items, bins, Sizes::kEqual, effort, bin);
      for (const int count : counts_of(bin, bins)) {
        EXPECT_GE(count, n / bins);
        EXPECT_LE(count, (n + bins - 1) / bins);
      }
    }
  }
}

TEST(Balance, RefineNeverMakesItWorseAndStopsAtTheTarget) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Items items = items_of(beta_densities(200, seed));
    Indices bin = runs(200, 8);
    const double before = ratio(items, 8, bin);
    Effort effort{1.05, 10'000'000};
    const double after = refine(items, 8, Sizes::kEqual, effort, bin);
    EXPECT_LE(after, std::max(before, 1.05));
    EXPECT_LE(after, 1.05);
    EXPECT_NEAR(after, ratio(items, 8, bin), 1e-9);
    const Indices there = bin;  // good enough already: nothing moves
    refine(items, 8, Sizes::kEqual, effort, bin);
    EXPECT_EQ(bin, there);
  }
}

TEST(Balance, TheRatioOfARingIsTheSumOverItsSteps) {
  // 96 items that weigh in one of 8 dimensions each, in order: as a band does. One step does everything.
  Items items{96, 8, std::vector<float>(8 * 96, 0.0f)};
  for (std::size_t x = 0; x < 96; ++x) items.weight[x / 12 * 96 + x] = 1;
  EXPECT_NEAR(ratio(items, 8, runs(96, 8)), 1, 1e-9);
  // Twice the work in the first items: (24 + 7 * 0) over (24 + 7 * 12) / 8.
  for (std::size_t x = 0; x < 12; ++x) items.weight[x] = 2;
  EXPECT_NEAR(ratio(items, 8, runs(96, 8)), 24 / 13.5, 1e-6);
}

TEST(Balance, AllTilesOfARingComeOutAlike) {
  // Every eight items hold the same eight numbers, turned by one: all dimensions have the same sum.
  Items items{384, 8, std::vector<float>(8 * 384)};
  const Random random(3);
  for (std::size_t x = 0; x < 384; ++x) {
    for (std::size_t d = 0; d < 8; ++d)
      items.weight[d * 384 + x] = random.uniform(x / 8 * 8 + (x + d) % 8) < 0.3f ? 1.0f : 0.1f;
  }
  Indices bin = deal(items, 8, Sizes::kEqual);
  Effort effort{1, 3'000'000};
  EXPECT_LE(search(items, 8, Sizes::kEqual, effort, bin), 1.02);
}

TEST(Balance, NothingToDealIsPerfect) {
  Items items = items_of({0, 0, 0});
  Indices bin = runs(3, 2);
  Effort effort{1, 1000};
  EXPECT_EQ(search(items, 2, Sizes::kAny, effort, bin), 1);
  EXPECT_EQ(deal(items_of({}), 4, Sizes::kEqual), Indices{});
}

// The least possible largest bin, by trying everything: heaviest first, bins that look alike tried once.
void exact(const std::vector<double>& weights, std::size_t at, std::vector<double>& load, double& best) {
  if (at == weights.size()) {
    best = std::min(best, *std::max_element(load.begin(), load.end()));
    return;
  }
  for (std::size_t b = 0; b < load.size(); ++b) {
    if (load[b] + weights[at] >= best) continue;
    if (std::find(load.begin(), load.begin() + static_cast<std::ptrdiff_t>(b), load[b]) !=
        load.begin() + static_cast<std::ptrdiff_t>(b)) {
      continue;
    }
    load[b] += weights[at];
    exact(weights, at + 1, load, best);
    load[b] -= weights[at];
  }
}

TEST(Balance, SearchFindsWhatExactSearchFinds) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<double> weights = beta_densities(12, seed);
    const Items items = items_of(weights);
    Indices bin = deal(items, 4, Sizes::kAny);
    Effort effort{1, 150'000};
    const double found = search(items, 4, Sizes::kAny, effort, bin);
    std::sort(weights.rbegin(), weights.rend());
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / 4;
    double best = 1e9;
    std::vector<double> load(4, 0.0);
    exact(weights, 0, load, best);
    EXPECT_GE(found, best / mean - 1e-5) << seed;
    EXPECT_LE(found, best / mean + 0.005) << seed;  // half a thousandth is typical; never past the promise of 0.01
  }
}

}  // namespace
}  // namespace reel::plan
