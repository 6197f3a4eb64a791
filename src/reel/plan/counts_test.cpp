#include "reel/plan/counts.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/plan/partition.h"

namespace reel::plan {
namespace {

using lists::KeyListsBuilder;
using lists::uniform_groups;

TEST(Counts, CountsKeysOfTokensTilesAndDenseHeads) {
  // 100 queries in groups of 64, 150 keys: blocks of 64, 64 and 22.
  KeyListsBuilder builder(1, 2, 150, uniform_groups(100, 64));
  builder.add(std::vector<std::int32_t>{0, 63, 64, 149});
  builder.add(std::vector<std::int32_t>{});
  builder.add_dense_head();
  const Counts work = count_work(builder.finish(), {10, 2});
  ASSERT_EQ(work.columns, 3);
  EXPECT_EQ(work.keys, (std::vector<std::uint16_t>{2, 1, 1, 0, 0, 0, 64, 64, 22, 64, 64, 22}));
  EXPECT_EQ(work.row_keys, (std::vector<std::uint32_t>{4, 0, 150, 150}));
  EXPECT_EQ(work.column_tokens, (std::vector<std::int32_t>{64, 64, 22}));
  EXPECT_EQ(work.tokens(), 100);
  // The second group has 36 of 64 queries. A group without keys costs nothing.
  const std::vector<double> heads = work.head_work(3);
  EXPECT_NEAR(heads[0], 3 * 10 + 2 * 4, 1e-5);
  EXPECT_NEAR(heads[1], 2 * 3 * 10 + 2 * 150 * (1 + 36.0 / 64), 1e-4);
  EXPECT_EQ(work.filled, (std::vector<std::uint64_t>{7, 0, 7, 7}));
}

TEST(Counts, AShortLastTileCountsItsTokens) {
  KeyListsBuilder builder(2, 1, 150, uniform_groups(64, 64), lists::kTileKeys);
  builder.add(std::vector<std::int32_t>{1, 2});
  builder.add(std::vector<std::int32_t>{2});
  const Counts work = count_work(builder.finish(), {0, 1});
  EXPECT_EQ(work.keys, (std::vector<std::uint16_t>{0, 64, 44}));  // batch items together
}

TEST(Counts, ManyBlocksBecomeRunsOfBlocks) {
  const Counts work = count_work(lists::dense_lists(1, 1, 64, 64 * 1183 + 5), {0, 1});
  EXPECT_EQ(work.blocks, 1184);
  EXPECT_EQ(work.columns, 128);
  EXPECT_EQ(work.column_of[1183], 127);
  EXPECT_EQ(work.column_tokens.back(), 9 * 64 + 5);
  EXPECT_EQ(count_work(lists::dense_lists(1, 1, 64, 64 * 1184), {0, 1}, 256).columns, 1184);
}

TEST(Counts, EqualRunsOfColumnsAreEqualRunsOfBlocks) {
  for (const int ranks : {3, 6, 8, 12, 48}) {
    const Counts work = count_work(lists::dense_lists(1, 1, 64, 64 * 1184), {0, 1}, ranks);
    ASSERT_EQ(work.columns % ranks, 0);
    const Partition p = contiguous(work, 1, ranks);
    for (const Indices& columns : p.keys[0]) {
      std::int64_t tokens = 0;
      for (const std::int32_t c : columns) tokens += work.column_tokens[static_cast<std::size_t>(c)];
      EXPECT_GE(tokens, 1184 / ranks * 64);
      EXPECT_LE(tokens, (1184 + ranks - 1) / ranks * 64);
    }
  }
}

TEST(Counts, AMaskCountsBlocks) {
  const std::vector<std::uint8_t> mask = {1, 0, 1, 0, 0, 1};  // one head, 2 x 3
  const Counts work = count_work(lists_of_mask(mask, 1, 2, 3), kBlockCost);
  EXPECT_NEAR(work.head_work(1)[0], 3, 1e-6);
}

TEST(Counts, NothingToComputeIsAnError) {
  EXPECT_NE(message_of([] {
              count_work(lists::random_lists(1, 2, 64, uniform_groups(64, 64), 0, 1, 1), {0, 1});
            }).find("no query attends to any key"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              count_work(lists::dense_lists(1, 0, 64, 64), {0, 1});
            }).find("0 heads"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              count_work(lists::dense_lists(2000, 1, 64, 64), {0, 1});
            }).find("batch items"),
            std::string::npos);
}

TEST(Counts, AMachineWithoutBandwidthHasNoFixedCost) {
  cost::Machine machine;
  machine.peak_all = 1e11;
  EXPECT_EQ(group_cost(machine, 64, 128).fixed, 0);
  EXPECT_NEAR(group_cost(machine, 64, 128).per_key, 4 * 64 * 128 / 1e11, 1e-12);
  machine.levels.push_back({"memory", 1e8, 1e10, 1e10, 1e10});
  EXPECT_NEAR(group_cost(machine, 64, 128).fixed, 16 * 64 * 128 / 1e10, 1e-12);
}

}  // namespace
}  // namespace reel::plan
