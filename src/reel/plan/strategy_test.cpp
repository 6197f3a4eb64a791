#include "reel/plan/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reel/base/testing.h"
#include "reel/plan/gather.h"
#include "reel/plan/imbalance.h"
#include "reel/plan/samples.h"

namespace reel::plan {
namespace {

const cost::Cluster& h100() {
  static const cost::Cluster cluster = cost::load_cluster(REEL_SOURCE_DIR "/clusters/h100-ndr400.toml");
  return cluster;
}

// 16 heads of 32,768 tokens in tiles of 64: one attends to everything, the others to `share` of the tiles.
lists::KeyLists outlier(double share) {
  const lists::KeyLists sparse = lists::random_lists(1, 16, 32768, lists::uniform_groups(32768, 64), share, 64, 1);
  lists::KeyListsBuilder builder(1, 16, 32768, sparse.group_starts, 64);
  for (int h = 0; h < 16; ++h) {
    if (h == 5) {
      builder.add_dense_head();
    } else {
      for (int g = 0; g < sparse.groups(); ++g) builder.add(sparse.list(0, h, g));
    }
  }
  return builder.finish();
}

std::vector<Strategy> compare_on_h100(const lists::KeyLists& lists, int ranks, double memory = 0) {
  const Counts work = count_work(lists, group_cost(h100(), 64, 128), ranks);
  return compare(lists, work, {h100(), ranks, 128, memory});
}

const Strategy& find(const std::vector<Strategy>& all, int ulysses, int ring, Exchange exchange) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Strategy& s) {
    return s.degrees.ulysses == ulysses && s.degrees.keys() == ring && s.gathers() == (exchange == Exchange::kGather);
  });
  REEL_CHECK(found != all.end());
  return *found;
}

TEST(Strategy, OneDenseHeadAmongSparseOnesWantsHybridGroups) {
  const std::vector<Strategy> all = compare_on_h100(outlier(1.0 / 15), 16);
  const Strategy &hcp = find(all, 16, 1, Exchange::kRing), &scp = find(all, 1, 16, Exchange::kGather);
  const auto hybrid =
      std::find_if(all.begin(), all.end(), [](const Strategy& s) { return s.degrees.ulysses > 1 && s.gathers(); });
  ASSERT_NE(hybrid, all.end());
  EXPECT_LT(hybrid->seconds(), 0.9 * hcp.seconds());
  EXPECT_LT(hybrid->seconds(), 0.9 * scp.seconds());
  // Why: heads cannot be cut, so pure HCP waits for the dense one; pure SCP fetches all heads' keys across nodes.
  EXPECT_GT(hcp.rho, 4);
  EXPECT_LT(hybrid->rho, hcp.rho / 2);
  EXPECT_GT(hcp.waiting_seconds - hybrid->waiting_seconds, hcp.seconds() - hybrid->seconds());
  EXPECT_GT(scp.keys_seconds - hybrid->keys_seconds, scp.seconds() - hybrid->seconds());
  const std::string over_hcp = explain(*hybrid, hcp), over_scp = explain(*hybrid, scp);
  EXPECT_NE(over_hcp.find(": waiting for the slowest rank takes "), std::string::npos) << over_hcp;
  EXPECT_NE(over_hcp.find("(imbalance "), std::string::npos) << over_hcp;
  EXPECT_NE(over_scp.find(": fetching keys takes "), std::string::npos) << over_scp;
}

TEST(Strategy, EqualHeadsWantNoExchangeOfKeys) {
  const lists::KeyLists lists = lists::random_lists(1, 16, 16384, lists::uniform_groups(16384, 64), 0.1, 64, 1);
  const std::vector<Strategy> all = compare_on_h100(lists, 8);
  EXPECT_EQ(all.front().degrees.ulysses, 8) << all.front().name();
  EXPECT_EQ(all.front().name(), "ulysses=8");
}

TEST(Strategy, EveryDegreeAndPlacementIsThereAndAddsUp) {
  const lists::KeyLists lists = video_lists(Kind::kMixed, 12, 64, 1);
  const std::vector<Strategy> all = compare_on_h100(lists, 16);
  // 1, 2, 4 and 8 groups of heads (16 are more than heads), ring and gather, two placements where both are groups.
  EXPECT_EQ(all.size(), 2u + 3 * 2 * 2);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Strategy& s = all[i];
    EXPECT_EQ(s.degrees.ranks(), 16);
    EXPECT_EQ(layout::parse_degrees(s.name()), s.degrees);
    EXPECT_TRUE(s.fits);
    if (i > 0) {
      EXPECT_GE(s.seconds(), all[i - 1].seconds());
    }
    EXPECT_GE(s.rho, 1 - 1e-9);
    EXPECT_GE(s.waiting_seconds, -1e-12);
    EXPECT_GT(s.compute_seconds, 0);
    EXPECT_GT(s.bytes, 0);
    EXPECT_GT(s.memory, 0);
  }
}

TEST(Strategy, PartsFollowFromTheirPlans) {
  const lists::KeyLists lists = video_lists(Kind::kMixed, 8, 64, 1);
  const Counts work = count_work(lists, group_cost(h100(), 64, 128), 8);
  for (const Strategy& s : compare(lists, work, {h100(), 8, 128, 0})) {
    const Tiles t = tiles(work, s.partition);
    const double even = t.total() / 8;
    EXPECT_NEAR(s.waiting_seconds + even, even * (s.gathers() ? rho_no_barrier(t) : rho(t)), 1e-12);
    const double heads = 4.0 * 8 * 4096 * 128 * 2 * (s.degrees.ulysses - 1) / s.degrees.ulysses;
    const double rows = moved(contiguous(work, s.degrees.ulysses, s.degrees.keys()), s.partition, work, 128, 2).bytes;
    const double keys = s.gathers() ? plan_gather(lists, work, s.partition, 128, 2).total_bytes()
                                    : 2.0 * 8 * 4096 * 128 * 2 * (s.degrees.keys() - 1);
    EXPECT_NEAR(s.bytes, heads + rows + keys, 1) << s.name();
  }
}

TEST(Strategy, MemoryDecidesFirst) {
  const std::vector<Strategy> all = compare_on_h100(outlier(0.05), 8);
  std::vector<double> memory;
  for (const Strategy& s : all) memory.push_back(s.memory);
  std::sort(memory.begin(), memory.end());
  ASSERT_LT(memory.front(), memory.back());
  const std::vector<Strategy> limited = compare_on_h100(outlier(0.05), 8, (memory.front() + memory.back()) / 2);
  bool fitted = true;
  for (const Strategy& s : limited) {
    EXPECT_LE(s.fits, fitted);  // those that fit come first
    fitted = s.fits;
  }
  EXPECT_TRUE(limited.front().fits);
  EXPECT_FALSE(limited.back().fits);
}

TEST(Strategy, RanksThatCannotBePlacedAreAnError) {
  const lists::KeyLists lists = video_lists(Kind::kBanded, 4, 16, 1);
  EXPECT_NE(message_of([&] { compare_on_h100(lists, 12); }).find("12 ranks do not fill nodes of 8"), std::string::npos);
  EXPECT_NE(message_of([&] { compare_on_h100(lists, 0); }).find("0 ranks"), std::string::npos);
  EXPECT_EQ(compare_on_h100(lists, 6).size(), 6u);  // 1, 2 and 3 groups of heads, ring and gather
}

}  // namespace
}  // namespace reel::plan
