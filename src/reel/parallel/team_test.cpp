#include "reel/parallel/team.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/comm/mpi.h"
#include "reel/layout/cut.h"

namespace reel::parallel {
namespace {

TEST(Plan, IsReadAsItIsWritten) {
  for (const char* text : {"", "dsp=4", "ulysses=2,ring=4", "ring=3"}) EXPECT_EQ(parse_plan(text).text(), text);
  EXPECT_EQ(parse_plan("ulysses=2,ring=4").degree(), 8);
  EXPECT_EQ(parse_plan("ring=2,ulysses=3").text(), "ulysses=3,ring=2");
  EXPECT_EQ(parse_plan("dsp=1").text(), "");
}

TEST(Plan, MistakesAreNamed) {
  for (const char* text : {"dps=4", "dsp", "dsp=", "dsp=0", "dsp=-2", "dsp=4x", "dsp=2,dsp=2", "ulysses=2,", ",ring=2",
                           "ulysses=2;ring=2", "dsp=99999999999", "ulysses=65536,ring=65536"}) {
    const std::string message = message_of([&] { parse_plan(text); });
    EXPECT_NE(message.find(fmt::format("the plan \"{}\"", text)), std::string::npos) << message;
    EXPECT_NE(message.find("ulysses=2,ring=2"), std::string::npos) << message;
  }
  EXPECT_NE(message_of([] { parse_plan("dsp=2,ring=2"); }).find("mixes dsp"), std::string::npos);
}

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
