// What the tests of many ranks share. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reel/comm/testing.h"
#include "reel/parallel/team.h"
#include "reel/tape/testing.h"

namespace reel::parallel::testing {

using comm::testing::world;
using tape::testing::copy_of;
using tape::testing::random_values;

// The difference between ranks and one rank: f32 sums in another order.
constexpr double kOfLargest = 1e-5;

inline double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

// `scale` stands for the largest of `want` where that is 0 for a reason of its own.
inline void expect_parity(std::span<const float> got, std::span<const float> want, double scale = 0) {
  ASSERT_EQ(got.size(), want.size());
  const double bound = kOfLargest * std::max(largest(want), scale);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    worst = std::isfinite(got[i]) ? std::max(worst, difference) : INFINITY;
  }
  EXPECT_LE(worst, bound);
}

// Every way to write the number of ranks as ulysses x ring, with heads and with keys over neighbouring ranks.
inline std::vector<layout::Degrees> factorisations(int ranks) {
  std::vector<layout::Degrees> plans;
  for (int u = 1; u <= ranks; ++u) {
    if (ranks % u != 0) continue;
    plans.push_back({.ulysses = u, .ring = ranks / u});
    if (u > 1 && u < ranks) plans.push_back({.ulysses = u, .ring = ranks / u, .keys_inside = true});
  }
  return plans;
}

// The compute loops of `threads` move messages, as in the program.
inline void poll_from(Threads& threads) { comm::poll_while_computing(threads, world()); }

}  // namespace reel::parallel::testing
