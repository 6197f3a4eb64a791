#include "reel/parallel/team.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/comm/mpi.h"

namespace reel::parallel {
namespace {

TEST(Team, GroupsAreThoseOfThePicture) {
  for (int rank = 0; rank < 8; ++rank) {
    const auto world = comm::make_ghost(rank, 8);
    Team team(*world, {.ulysses = 2, .ring = 2});
    EXPECT_EQ(team.sequence().size(), 4);
    EXPECT_EQ(team.sequence().rank(), rank % 4);
    EXPECT_EQ(team.data().size(), 2);
    EXPECT_EQ(team.data().rank(), rank / 4);
    EXPECT_EQ(team.ulysses().size(), 2);
    EXPECT_EQ(team.ulysses().rank(), rank % 2);
    EXPECT_EQ(team.ring().size(), 2);
    EXPECT_EQ(team.ring().rank(), rank % 4 / 2);
    Team dsp(*world, {.dsp = 4});
    EXPECT_EQ(dsp.ulysses().size() * dsp.ring().size(), 1);
  }
}

TEST(Team, TheDegreeNamedFirstIsOverNeighbours) {
  const auto world = comm::make_ghost(5, 8);
  Team heads_inside(*world, layout::parse_degrees("ulysses=2,ring=4"));
  Team keys_inside(*world, layout::parse_degrees("ring=4,ulysses=2"));
  using Ranks = std::vector<int>;
  EXPECT_EQ(heads_inside.ulysses().members(), (Ranks{4, 5}));
  EXPECT_EQ(heads_inside.ring().members(), (Ranks{1, 3, 5, 7}));
  EXPECT_EQ(keys_inside.ulysses().members(), (Ranks{1, 5}));
  EXPECT_EQ(keys_inside.ring().members(), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(keys_inside.sequence().members(), (Ranks{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(keys_inside.sequence().rank(), 3);  // place = ring index * 2 + Ulysses index
}

TEST(Team, WhatIsNotBuiltIsRefused) {
  const auto world = comm::make_ghost(0, 8);
  EXPECT_NE(message_of([&] { Team team(*world, {.ulysses = 4, .gather = 2}); }).find("does not know gather yet"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Team team(*world, {.automatic = true}); }).find("does not know auto yet"),
            std::string::npos);
}

TEST(Team, APlanThatDoesNotFitSaysWhichNumbersWould) {
  const auto world = comm::make_ghost(0, 6);
  EXPECT_EQ(message_of([&] { Team team(*world, {.dsp = 4}); }),
            "the plan \"dsp=4\" needs groups of 4 ranks, and 6 ranks cannot be cut into them | start 4 or 8 ranks "
            "(mpirun -n 4), or use a plan for 1, 2, 3, 6 ranks a clip");
  const auto many = comm::make_ghost(0, 250), alone = comm::make_ghost(0, 1);
  EXPECT_NE(message_of([&] { Team team(*many, {.dsp = 4}); }).find("start 248 or 252 ranks (mpirun -n 248)"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Team team(*alone, {.dsp = 3}); }).find("start 3 ranks (mpirun -n 3)"), std::string::npos);
}

TEST(Team, OneRankLearnsHowToBecomeMore) {
  const auto world = comm::make_self();
  const std::string message = message_of([&] { Team team(*world, {.dsp = 4}); });
  EXPECT_NE(
      message.find(comm::mpi_version().empty() ? "this build has no MPI | install libopenmpi-dev" : "mpirun -n 4"),
      std::string::npos)
      << message;
}

}  // namespace
}  // namespace reel::parallel
