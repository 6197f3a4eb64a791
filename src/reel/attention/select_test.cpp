#include "reel/attention/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "reel/attention/low_rank.h"
#include "reel/attention/testing.h"
#include "reel/kernels/cpu.h"

namespace reel::attention {
namespace {

struct Selection {
  SelectInput in;
  Array q, k;
  Selection(std::int64_t batch, std::int64_t heads, std::int64_t groups, std::int64_t keys, std::int64_t rank,
            std::int64_t samples, int granularity, std::int64_t keep, std::uint64_t seed, float spread = 1)
      : q(Problem::random(static_cast<std::size_t>(batch * heads * groups * samples * rank), seed, 1, spread)),
        k(Problem::random(static_cast<std::size_t>(batch * heads * keys * rank), seed, 2, spread)) {
    in.batch = batch, in.heads = heads, in.keys = keys, in.rank = rank, in.samples = samples,
    in.granularity = granularity;
    in.group_starts = lists::uniform_groups(groups * 5, 5);
    in.keep = {keep};
    in.scale = 0.3f;
    in.q = token_major<const float>(q.data(), groups * samples, heads, rank);
    in.k = token_major<const float>(k.data(), keys, heads, rank);
  }
};

// Against a full sort of the double-precision weights: every kept entry is among the `keep` heaviest, up to the
// rounding of f32 exponents (a score of 20 is known to 2e-6, so weights are to 1e-5).
void expect_heaviest(const SelectInput& in, const lists::KeyLists& lists, double rounding = 1e-5) {
  for (std::int64_t b = 0; b < in.batch; ++b) {
    for (std::int64_t h = 0; h < in.heads; ++h) {
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        const auto weights = reference_weights(in, b, h, g);
        auto sorted = weights;
        std::sort(sorted.rbegin(), sorted.rend());
        const auto list = lists.list(b, h, g);
        ASSERT_EQ(list.size(), static_cast<std::size_t>(in.keep[0]));
        for (std::int32_t entry : list) {
          ASSERT_GE(weights[static_cast<std::size_t>(entry)], sorted[list.size() - 1] * (1 - rounding))
              << "group " << g;
        }
      }
    }
  }
}

TEST(Select, KeepsTheHeaviestOnEveryTarget) {
  const std::string before = kernels::target();
  Threads threads(2);
  for (const std::string& target : kernels::available_targets()) {
    kernels::set_target(target);
    const Random random(test_seed(), 8);
    for (std::uint64_t i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
      const auto below = [&](std::uint64_t n, std::uint64_t which) {
        return static_cast<std::int64_t>(random.below(i * 10 + which, n));
      };
      const int granularity = i % 3 == 2 ? lists::kTileKeys : 1;
      const std::int64_t keys = 2 + below(1500, 0) + (granularity > 1 ? 64 : 0);
      const std::int64_t entries = (keys + granularity - 1) / granularity;
      const std::int64_t samples = i % 4 == 0 ? 1 : 1 + below(20, 1);
      Selection s(1 + below(2, 2), 1 + below(2, 3), 1 + below(9, 4), keys, 1 + below(40, 5), samples, granularity,
                  1 + below(static_cast<std::uint64_t>(entries - 1), 6), test_seed() * 100 + i,
                  i % 5 == 0 ? 3.0f : 1.0f);
      SCOPED_TRACE(fmt::format("{}, case {}: keys {} rank {} samples {} granularity {} keep {}", target, i, keys,
                               s.in.rank, samples, granularity, s.in.keep[0]));
      expect_heaviest(s.in, select(s.in, threads));
    }
  }
  kernels::set_target(before);
}

// From 8,192 entries on a sample of 1,024 tells where the threshold lies.
TEST(Select, SamplesOfManyKeysDoNotChangeTheChoice) {
  const std::string before = kernels::target();
  Threads threads(2);
  for (const std::string& target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const std::int64_t keys : {8192, 8193, 16384, 20011}) {
      for (const std::int64_t keep : {std::int64_t{1}, std::int64_t{3}, keys / 10, keys / 2, keys - 1}) {
        for (const std::int64_t samples : {1, 5}) {
          SCOPED_TRACE(fmt::format("{}: keys {} keep {} samples {}", target, keys, keep, samples));
          Selection s(1, 1, 1, keys, 4, samples, 1, keep, test_seed() + 9, samples == 1 ? 3.0f : 1.0f);
          expect_heaviest(s.in, select(s.in, threads));
        }
      }
    }
    // What is looked at is lighter or heavier than all the rest: (2 i + 1) n / 2048.
    for (const float factor : {-9.0f, 9.0f}) {
      SCOPED_TRACE(fmt::format("{}: {}", target, factor));
      Selection s(1, 1, 1, 16384, 4, 1, 1, 1638, test_seed() + 10);
      for (std::size_t key = 8; key < 16384; key += 16) {
        for (std::size_t c = 0; c < 4; ++c) s.k[key * 4 + c] = factor * s.q[c];
      }
      expect_heaviest(s.in, select(s.in, threads));
    }
    Selection equal(1, 1, 1, 9000, 4, 3, 1, 700, test_seed() + 11);
    std::fill(equal.k.begin(), equal.k.end(), 0.0f);
    const lists::KeyLists lists = select(equal.in, threads);
    std::vector<std::int32_t> first(700);
    std::iota(first.begin(), first.end(), 0);
    const auto list = lists.list(0, 0, 0);
    EXPECT_EQ(std::vector<std::int32_t>(list.begin(), list.end()), first) << target;
  }
  kernels::set_target(before);
}

TEST(Select, ExponentialsKeptInSixteenBitsDoNotChangeTheChoice) {
  // With 64 samples all weights are close: the threshold has many keys within what 16 bits lose.
  Threads threads(2);
  for (const int granularity : {1, static_cast<int>(lists::kTileKeys)}) {
    Selection s(1, 1, 2, 5003, 32, 64, granularity, granularity == 1 ? 500 : 20, 6);
    expect_heaviest(s.in, select(s.in, threads));
  }
}

TEST(LowRank, RoundedRowsAreCloseAndFitTheirProducts) {
  for (const std::size_t rank : {1, 2, 31, 32, 200}) {
    const Array row = Problem::random(rank, test_seed(), 3, 1e4f);
    std::vector<std::int64_t> integers(rank);
    const double unit = round_row(row.data(), rank, integers.data());
    std::int64_t product = 0;
    for (std::size_t c = 0; c < rank; ++c) {
      EXPECT_NEAR(static_cast<double>(integers[c]) * unit, row[c], 0.501 * unit);
      EXPECT_LE(std::abs(integers[c]), 32767);
      product += integers[c] * integers[c];
    }
    EXPECT_LE(product, std::numeric_limits<std::int32_t>::max());
  }
}

TEST(LowRank, WhatIsNoNumberIsZero) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::int16_t integers[3];
  const float with_nan[] = {kNan, 2, -1}, with_inf[] = {kInf, 2, -1}, tiny[] = {1e-40f, 0, 0};
  EXPECT_GT(round_row(with_nan, 3, integers), 0);
  EXPECT_EQ(integers[0], 0);
  EXPECT_NE(integers[1], 0);
  EXPECT_EQ(round_row(with_inf, 3, integers), 0);
  EXPECT_EQ(round_row(tiny, 3, integers), 0);
  EXPECT_EQ(integers[0], 0);
}

TEST(Select, ScoresFarBelowZeroStillOrder) {
  // All scores are near -3000: padding with zero keys must not become the reference of the exponentials.
  Selection s(1, 1, 2, 70, 4, 3, 1, 5, 1);
  for (std::size_t i = 0; i < s.q.size(); ++i) s.q[i] = i % 4 == 0 ? 100.0f : s.q[i];
  for (std::size_t i = 0; i < s.k.size(); ++i) s.k[i] = i % 4 == 0 ? -100.0f : s.k[i];
  Threads threads(1);
  expect_heaviest(s.in, select(s.in, threads), 2e-3);  // a score of 3000 is known to 2e-4
}

TEST(Select, ScoresThatRiseFarAboveTheFirstBlockStillOrder) {
  // The exponentials of later blocks share the reference of the first one: 2^870 is no number of f32.
  Selection s(1, 1, 2, 1500, 4, 3, 1, 5, 1);
  for (std::size_t i = 0; i < s.q.size(); i += 4) s.q[i] = 100.0f;
  for (std::size_t i = 0; i < s.k.size(); i += 4) s.k[i] += i / 4 < 600 ? -10.0f : 10.0f;
  Threads threads(1);
  expect_heaviest(s.in, select(s.in, threads), 2e-3);
}

TEST(Select, EqualWeightsGoToTheLowerIndex) {
  for (std::int64_t samples : {1, 4}) {
    Selection s(1, 1, 3, 1000, 8, samples, 1, 137, 2);
    std::fill(s.k.begin(), s.k.end(), 0.0f);  // every score is 0
    Threads threads(1);
    const lists::KeyLists lists = select(s.in, threads);
    for (std::int64_t g = 0; g < 3; ++g) {
      std::vector<std::int32_t> want(137);
      std::iota(want.begin(), want.end(), 0);
      const auto list = lists.list(0, 0, g);
      EXPECT_EQ(std::vector<std::int32_t>(list.begin(), list.end()), want);
    }
  }
}

TEST(Select, KeepingNothingOrEverything) {
  Threads threads(2);
  Selection s(1, 3, 4, 100, 8, 2, 1, 0, 3);
  s.in.keep = {0, 100, 7};
  const lists::KeyLists lists = select(s.in, threads);
  EXPECT_EQ(lists.list(0, 0, 0).size(), 0u);
  EXPECT_TRUE(lists.dense(0, 1));
  EXPECT_EQ(lists.list(0, 2, 3).size(), 7u);
}

// Ragged groups, lists that must be longer than asked for, and lists of all keys but one.
TEST(Select, WhatIsAlwaysKeptCountsAmongTheKept) {
  const std::string before = kernels::target();
  Threads threads(2);
  for (const std::string& target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const int granularity : {1, lists::kTileKeys}) {
      for (const std::int64_t samples : {1, 3}) {
        for (const std::int64_t keep : {0, 1, 7, 40, 130, 298, 299, -40, -250}) {  // below 0: beside what is held
          Selection s(2, 2, 4, 300, 6, samples, granularity, std::abs(keep), 3);
          s.in.keep_beside = keep < 0;
          s.in.group_starts = {0, 3, 90, 91, 300};
          s.in.keep_own = true;
          s.in.always = granularity == 1 ? std::vector<std::int32_t>{2, 5, 90, 299} : std::vector<std::int32_t>{1, 4};
          const lists::KeyLists lists = select(s.in, threads);
          SCOPED_TRACE(fmt::format("{}: granularity {}, {} samples, keep {}", target, granularity, samples, keep));
          for (std::int64_t i = 0; i < 16; ++i) {
            const std::int64_t b = i / 8, h = i / 4 % 2, g = i % 4;
            ASSERT_EQ(lists.dense(b, h), std::abs(keep) >= lists.entries());
            if (lists.dense(b, h)) continue;
            std::set<std::int32_t> held(s.in.always.begin(), s.in.always.end());
            for (std::int32_t token = s.in.group_starts[static_cast<std::size_t>(g)];
                 token < s.in.group_starts[static_cast<std::size_t>(g) + 1]; ++token) {
              held.insert(token / granularity);
            }
            const auto list = lists.list(b, h, g);
            const auto size = static_cast<std::int64_t>(held.size());
            ASSERT_EQ(static_cast<std::int64_t>(list.size()),
                      keep < 0 ? std::min(size - keep, lists.entries()) : std::max(size, keep));
            EXPECT_TRUE(std::includes(list.begin(), list.end(), held.begin(), held.end()));
            // Of the others the heaviest.
            const std::vector<double> weights = reference_weights(s.in, b, h, g);
            double least = 1e9, most = 0;
            for (std::int32_t entry = 0; entry < lists.entries(); ++entry) {
              if (held.contains(entry)) continue;
              const double weight = weights[static_cast<std::size_t>(entry)];
              if (std::binary_search(list.begin(), list.end(), entry)) {
                least = std::min(least, weight);
              } else {
                most = std::max(most, weight);
              }
            }
            EXPECT_GE(least, most * (1 - 1e-5));
          }
        }
      }
    }
  }
  kernels::set_target(before);
}

TEST(Select, NanDoesNotDriveOutWhatIsAlwaysKept) {
  Threads threads(1);
  Selection s(1, 1, 3, 200, 8, 4, 1, 20, 5);
  s.in.keep_own = true;
  s.in.always = {150};
  std::fill(s.k.begin(), s.k.end(), std::numeric_limits<float>::quiet_NaN());
  const lists::KeyLists lists = select(s.in, threads);
  for (std::int32_t g = 0; g < 3; ++g) {
    const auto list = lists.list(0, 0, g);
    EXPECT_EQ(list.size(), 20u);
    for (const std::int32_t key : {5 * g, 5 * g + 4, 150}) {
      EXPECT_TRUE(std::binary_search(list.begin(), list.end(), key)) << key;
    }
  }
}

TEST(Select, AnyNumberOfThreadsGivesTheSameLists) {
  Selection s(2, 3, 70, 600, 16, 5, 1, 60, 4);
  Threads one(1), three(3);
  EXPECT_EQ(select(s.in, one).keys, select(s.in, three).keys);
}

TEST(Select, NanDoesNotCrash) {
  Threads threads(1);
  for (std::int64_t samples : {1, 4}) {
    Selection s(1, 1, 3, 200, 8, samples, 1, 20, 5);
    s.k[77] = std::numeric_limits<float>::quiet_NaN();
    s.q[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(select(s.in, threads).list(0, 0, 0).size(), 20u);
  }
}

TEST(Select, BadInputIsAnError) {
  Threads threads(1);
  Selection s(1, 2, 4, 100, 8, 2, 1, 10, 3);
  for (int spoil = 0; spoil < 11; ++spoil) {
    SelectInput in = s.in;
    if (spoil == 0) in.keep = {1, 2, 3};
    if (spoil == 1) in.keep = {-1};
    if (spoil == 2) in.rank = 0;
    if (spoil == 3) in.granularity = 32;
    if (spoil == 4) in.group_starts = {};
    if (spoil == 5) in.k.data = nullptr;
    if (spoil == 6) in.q.row = 3;
    if (spoil == 7) in.always = {3, 3};
    if (spoil == 8) in.always = {100};
    if (spoil > 8) in.keep_own = true;
    if (spoil == 9) in.group_starts = {0, 50, 60, 70, 101};
    if (spoil == 10) in.group_starts = {0, 50, 40, 70, 80};
    EXPECT_THROW(select(in, threads), Error) << spoil;
  }
}

}  // namespace
}  // namespace reel::attention
