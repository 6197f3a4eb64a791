#include "reel/plan/gather.h"

#include <gtest/gtest.h>

#include <set>

#include "reel/base/testing.h"
#include "reel/plan/planner.h"
#include "reel/plan/testing.h"

namespace reel::plan {
namespace {

// Union of the lists of a rank's rows, head by head, with sets.
void expect_unions(const lists::KeyLists& lists, const Counts& work, const Partition& p) {
  const GatherPlan plan = plan_gather(lists, work, p, 96, 2);
  double all_bytes = 0;
  for (std::size_t u = 0; u < p.heads.size(); ++u) {
    for (std::size_t i = 0; i < p.rows[u].size(); ++i) {
      double memory = 0;
      std::vector<double> bytes(p.rows[u].size(), 0.0);
      for (std::int64_t b = 0; b < lists.batch; ++b) {
        for (const std::int32_t head : p.heads[u]) {
          std::set<std::int32_t> needed;
          for (const std::int32_t row : p.rows[u][i]) {
            if (lists.dense(b, head)) {
              for (std::int32_t e = 0; e < lists.entries(); ++e) needed.insert(e);
            }
            for (const std::int32_t e : lists.list(b, head, row)) needed.insert(e);
          }
          std::set<std::int32_t> planned;
          for (std::size_t j = 0; j < p.keys[u].size(); ++j) {
            const std::set<std::int32_t> home(p.keys[u][j].begin(), p.keys[u][j].end());
            for (const std::int32_t e : plan.list(b, head, static_cast<int>(i), static_cast<int>(j))) {
              EXPECT_TRUE(planned.insert(e).second);
              EXPECT_TRUE(home.contains(work.column_of[static_cast<std::size_t>(e * lists.granularity / 64)]));
              double tokens = 0;
              for (int k = 0; k < lists.granularity; ++k)
                tokens += e * lists.granularity + k < lists.keys_tokens ? 1 : 0;
              memory += tokens * 96 * 2 * 2;
              if (i != j) bytes[j] += tokens * 96 * 2 * 2;
            }
          }
          EXPECT_EQ(planned, needed);
        }
      }
      EXPECT_EQ(plan.memory[u * p.rows[u].size() + i], memory);
      for (std::size_t j = 0; j < bytes.size(); ++j) {
        EXPECT_EQ(plan.bytes[(u * bytes.size() + i) * bytes.size() + j], bytes[j]);
        all_bytes += bytes[j];
      }
    }
  }
  EXPECT_EQ(plan.total_bytes(), all_bytes);
  EXPECT_LE(plan.most_bytes(), all_bytes);
}

TEST(Gather, FetchesTheUnionOfTheListsAndNothingElse) {
  const lists::KeyLists tokens = lists::random_lists(2, 5, 700, lists::uniform_groups(800, 64), 0.02, 1, 1);
  const lists::KeyLists tiles = lists::random_lists(1, 4, 1000, lists::uniform_groups(640, 64), 0.2, 64, 2);
  for (const lists::KeyLists& lists : {tokens, tiles}) {
    const Counts work = count_work(lists, {0, 1});
    for (const auto& [ulysses, ring] : {std::pair(1, 4), {2, 3}, {5, 1}}) {
      expect_unions(lists, work, contiguous(work, ulysses, ring));
      expect_unions(lists, work,
                    make_partition(work, {.ulysses = ulysses, .ring = ring, .exchange = Exchange::kGather}));
    }
  }
}

TEST(Gather, ADenseHeadFetchesEverythingElse) {
  lists::KeyListsBuilder builder(1, 2, 256, lists::uniform_groups(256, 64));
  builder.add_dense_head();
  for (int g = 0; g < 4; ++g) builder.add(std::vector<std::int32_t>{g * 64});  // at home
  const lists::KeyLists lists = builder.finish();
  const Counts work = count_work(lists, {0, 1});
  const GatherPlan plan = plan_gather(lists, work, contiguous(work, 1, 4), 128, 2);
  EXPECT_EQ(plan.total_bytes(), 4 * 192 * 128 * 2 * 2);
  EXPECT_EQ(plan.most_bytes(), 192 * 128 * 2 * 2);
  EXPECT_EQ(plan.most_memory(), (256 + 1) * 128 * 2 * 2);
  EXPECT_EQ(plan.most_fetched(), 192);
}

TEST(Gather, ListsOfAnotherModelAreAnError) {
  const lists::KeyLists lists = lists::dense_lists(1, 4, 64, 256);
  const Counts work = count_work(lists::dense_lists(1, 2, 64, 256), {0, 1});
  EXPECT_NE(message_of([&] { plan_gather(lists, work, contiguous(work, 1, 2), 128, 2); }).find("4 heads"),
            std::string::npos);
}

}  // namespace
}  // namespace reel::plan
