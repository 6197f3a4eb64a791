#include "reel/plan/imbalance.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/plan/baselines.h"
#include "reel/plan/testing.h"

namespace reel::plan {
namespace {

TEST(Imbalance, ByHand) {
  // One head, two rows, two columns; a ring of two. Steps pair (row, column): first (0,0) and (1,1), then (0,1), (1,0).
  const auto measured = [](std::vector<std::uint8_t> mask) {
    const Counts work = count_work(lists_of_mask(mask, 1, 2, 2), kBlockCost);
    const Tiles t = tiles(work, contiguous(work, 1, 2));
    return std::pair(rho(t), rho_no_barrier(t));
  };
  EXPECT_EQ(measured({1, 1, 1, 1}), std::pair(1.0, 1.0));
  EXPECT_EQ(measured({1, 0, 0, 1}), std::pair(1.0, 1.0));     // all in the first step
  EXPECT_EQ(measured({1, 1, 0, 0}), std::pair(2.0, 2.0));     // all at one rank
  EXPECT_EQ(measured({1, 0, 1, 0}), std::pair(2.0, 1.0));     // one rank works in each step, in turn
  EXPECT_NEAR(measured({1, 1, 1, 0}).first, 2 / 1.5, 1e-12);  // 1 + 1 over 3 / 2
  EXPECT_NEAR(measured({1, 1, 1, 0}).second, 2 / 1.5, 1e-12);
}

TEST(Imbalance, TheSlowestIsTakenOverAllRanks) {
  // Two heads on two Ulysses groups, a ring of two. Each group is busy in another step: nobody's ring is unbalanced in
  // itself, but everybody waits for the busy group.
  const std::vector<std::uint8_t> mask = {1, 0, 0, 1, 0, 1, 1, 0};
  const Counts work = count_work(lists_of_mask(mask, 2, 2, 2), kBlockCost);
  const Tiles t = tiles(work, contiguous(work, 2, 2));
  EXPECT_EQ(rho(t), 2);
  EXPECT_EQ(rho_no_barrier(t), 1);
}

TEST(Imbalance, MatchesTheDefinitionForEveryCut) {
  const GroupCost cost{3.5, 0.25};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    // 13 groups, the last one short; 5 heads, one of them dense; 700 keys.
    lists::KeyLists lists = lists::random_lists(2, 5, 700, lists::uniform_groups(800, 64), 0.03, 1, seed);
    lists::KeyListsBuilder builder(2, 5, 700, lists.group_starts);
    for (int b = 0; b < 2; ++b) {
      for (int h = 0; h < 5; ++h) {
        if (h == 3) {
          builder.add_dense_head();
        } else {
          for (int g = 0; g < lists.groups(); ++g) builder.add(lists.list(b, h, g));
        }
      }
    }
    lists = builder.finish();
    const Counts work = count_work(lists, cost);
    for (const auto& [ulysses, ring] : {std::pair(1, 1), {1, 3}, {2, 2}, {3, 4}, {7, 1}, {1, 16}}) {
      for (const Baseline& baseline : baselines()) {
        const Partition p = baseline.make(work, ulysses, ring);
        const Tiles t = tiles(work, p);
        const SlowImbalance slow = slow_imbalance(lists, cost, p, work.column_of);
        EXPECT_NEAR(rho(t), slow.rho, 1e-6) << baseline.name << " " << ulysses << " x " << ring;
        EXPECT_NEAR(rho_no_barrier(t), slow.rho_no_barrier, 1e-6) << baseline.name;
        EXPECT_LE(rho_no_barrier(t), rho(t) + 1e-9);
      }
    }
  }
}

TEST(Partition, OfAnotherModelIsAnError) {
  const Counts small = count_work(lists::dense_lists(1, 4, 64, 256), {0, 1});
  const Counts large = count_work(lists::dense_lists(1, 6, 64, 256), {0, 1});
  EXPECT_NE(message_of([&] { tiles(large, contiguous(small, 2, 1)); }).find("4 of 6 heads"), std::string::npos);
  EXPECT_NE(message_of([&] { tiles(small, contiguous(large, 2, 1)); }).find("number 4 of 4 heads"), std::string::npos);
  Partition twice = contiguous(small, 2, 1);
  twice.heads[0].push_back(3);
  EXPECT_NE(message_of([&] { tiles(small, twice); }).find("twice"), std::string::npos);
}

TEST(Partition, MovedCountsPairsThatChangeTheirPosition) {
  const Counts work = count_work(lists::dense_lists(1, 2, 64 * 4, 64 * 4), {0, 1});
  ASSERT_EQ(work.rows, 1);  // one group of dense lists
  const std::vector<std::uint8_t> mask(2 * 4 * 4, 1);
  const Counts blocks = count_work(lists_of_mask(mask, 2, 4, 4), kBlockCost);
  const Partition plain = contiguous(blocks, 1, 2);
  EXPECT_EQ(moved(plain, plain, blocks, 128, 2).bytes, 0);
  Partition other = plain;
  other.rows[0] = {{0, 2}, {1, 3}};
  const Moved m = moved(plain, other, blocks, 128, 2);
  EXPECT_EQ(m.rows, 4);  // two rows of two heads
  EXPECT_EQ(m.columns, 0);
  EXPECT_EQ(m.share, 0.5);
  EXPECT_EQ(m.bytes, 4 * 64 * 128 * 2 * 2);  // q there, the output back
  EXPECT_EQ(m.most_bytes, m.bytes / 2);
  other.keys[0] = {{2, 3}, {0, 1}};
  EXPECT_EQ(moved(plain, other, blocks, 128, 2).columns, 8);
}

}  // namespace
}  // namespace reel::plan
