#include "reel/comm/comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reel/base/launched.h"
#include "reel/base/testing.h"
#include "reel/comm/mpi.h"

namespace reel::comm {
namespace {

TEST(Self, HasItsOwnDataAndSendsNothing) {
  const auto self = make_self();
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> y(3), z(3);
  const std::vector<std::int64_t> bytes = {12}, counts = {3};
  self->all_to_all_v(x.data(), bytes, y.data(), bytes);
  EXPECT_EQ(y, x);
  self->reduce_scatter(x.data(), counts, z.data());
  EXPECT_EQ(z, x);
  self->all_reduce(std::span<float>(z));
  EXPECT_EQ(z, x);
  self->barrier();
  EXPECT_EQ(self->group({0}, "part")->members(), std::vector<int>{0});
  EXPECT_EQ(self->shared().traffic.bytes_sent(), 0);
  EXPECT_NE(traffic_json(*self).find("\"rank\": 0"), std::string::npos);
}

TEST(Ghost, ReceivesZerosAtOnceAndMetersWhatItWouldSend) {
  const auto ghost = make_ghost(2, 4);
  const std::vector<float> x(10, 1.0f);
  std::vector<float> y(10, 7.0f);
  const std::vector<std::int64_t> send = {4, 8, 16, 12}, receive = {4, 4, 16, 16};
  Handle handle = ghost->start_all_to_all(x.data(), send, y.data(), receive, {5, Phase::kForward});
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(y, (std::vector<float>{0, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
  const auto& [key, row] = *ghost->shared().traffic.rows().begin();
  EXPECT_EQ(key, (Traffic::Key{5, Phase::kForward, work::Exchange::Kind::kAllToAll, "world"}));
  EXPECT_EQ(row.bytes_sent, 24);
  ghost->start_all_to_all(nullptr, send, nullptr, receive, {}).wait();  // shapes only
  EXPECT_EQ(ghost->shared().traffic.bytes_sent(work::Exchange::Kind::kAllToAll), 48);
}

TEST(Ghost, GroupsKnowTheirMembersInOrder) {
  const auto ghost = make_ghost(2, 6);
  EXPECT_EQ(ghost->members(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  const auto four = ghost->group({5, 2, 0, 3}, "four");
  EXPECT_EQ(four->members(), (std::vector<int>{5, 2, 0, 3}));
  EXPECT_EQ(four->rank(), 1);
  const auto pair = four->group({3, 1}, "pair");
  EXPECT_EQ(pair->members(), (std::vector<int>{3, 2}));
  EXPECT_EQ(pair->rank(), 1);
  EXPECT_EQ(pair->name(), "pair");
}

// Two ranks of each pair make the groups that they share in the same order, and others in between.
TEST(Tags, BothEndsOfAPairCountTheSameAndNoTwoGroupsMeet) {
  const std::vector<std::pair<std::string, std::vector<int>>> groups = {
      {"all", {0, 1, 2, 3}}, {"a", {0, 1}}, {"b", {1, 2}}, {"c", {2, 0, 1}}, {"d", {0, 1}}, {"e", {3, 0}}};
  std::map<std::pair<int, int>, std::vector<int>> tags;  // between a rank and another one, group by group
  for (int rank = 0; rank < 4; ++rank) {
    Tags own;
    for (const auto& [name, members] : groups) {
      if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
      const std::vector<int> first = own.of(name, members, 32767);
      for (std::size_t i = 0; i < members.size(); ++i) tags[{rank, members[i]}].push_back(first[i]);
    }
    const std::vector<int> once = own.of("all", {0, 1, 2, 3}, 32767);
    EXPECT_EQ(once, (std::vector<int>{0, 0, 0, 0})) << "the same group again has the same tags";
  }
  EXPECT_EQ((tags[{0, 1}]), (std::vector<int>{0, kTags, 2 * kTags, 3 * kTags}));
  for (const auto& [pair, list] : tags) {
    EXPECT_EQ(list, (tags[{pair.second, pair.first}]));
    for (std::size_t i = 1; i < list.size(); ++i) EXPECT_GE(list[i], list[i - 1] + kTags);
  }
}

TEST(Tags, EndWhereThoseOfMpiEnd) {
  Tags tags;
  EXPECT_EQ(tags.of("a", {0, 1}, 3 * kTags - 1)[1], 0);
  EXPECT_EQ(tags.of("b", {0, 1}, 3 * kTags - 1)[1], kTags);
  EXPECT_NE(message_of([&] { tags.of("c", {0, 1}, 3 * kTags - 1); }).find("3th group"), std::string::npos);
}

TEST(Session, IsOneRankWithoutALauncher) {
  if (launched().ranks > 1) GTEST_SKIP() << "started by mpirun";
  Session session;
  EXPECT_EQ(session.world().size(), 1);
}

}  // namespace
}  // namespace reel::comm
