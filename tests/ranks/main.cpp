// Tests of many ranks: mpirun -n 3 ranks_test. Rank 0 prints as usual, the others only what failed; a failure on any
// rank is one of all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reel/comm/mpi.h"
#include "reel/comm/testing.h"

namespace {

class OnlyFailures : public testing::EmptyTestEventListener {
 public:
  explicit OnlyFailures(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    fmt::print("rank {}: {}:{}: {}\n", rank_, result.file_name() != nullptr ? result.file_name() : "?",
               result.line_number(), result.message());
    std::fflush(stdout);
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Pieces of an odd size: every longer message is cut, as messages above 2 GB are.
  reel::comm::Session session(9001);
  reel::comm::Comm& world = session.world();
  world.shared().limit = 60;
  reel::comm::testing::world_of_tests = &world;
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OnlyFailures(world.rank()));
  }
  double failed = RUN_ALL_TESTS();
  world.all_reduce({&failed, 1});
  return failed == 0 ? 0 : 1;
}
