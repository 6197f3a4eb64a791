#include "reel/comm/comm.h"

#include <gtest/gtest.h>

#include "reel/base/launched.h"
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
  EXPECT_EQ(self->split([](int r) { return r; }, "part")->size(), 1);
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
  EXPECT_EQ(key, (Traffic::Key{5, Phase::kForward, "all_to_all", "world"}));
  EXPECT_EQ(row.bytes_sent, 24);
  const auto pair = ghost->split([](int r) { return r / 2; }, "pair");
  EXPECT_EQ(pair->rank(), 0);
  EXPECT_EQ(pair->size(), 2);
  ghost->start_all_to_all(nullptr, send, nullptr, receive, {}).wait();  // shapes only
  EXPECT_EQ(ghost->shared().traffic.bytes_sent("all_to_all"), 48);
}

TEST(Session, IsOneRankWithoutALauncher) {
  if (launched().ranks > 1) GTEST_SKIP() << "started by mpirun";
  Session session;
  EXPECT_EQ(session.world().size(), 1);
}

}  // namespace
}  // namespace reel::comm
