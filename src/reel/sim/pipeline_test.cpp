#include "reel/sim/pipeline.h"

#include <gtest/gtest.h>

#include <map>

namespace reel::sim {
namespace {

TEST(Pipeline, LastStageAlternatesAndFirstRunsAhead) {
  const auto text = [](const std::vector<Turn>& order) {
    std::string result;
    for (const Turn& t : order) result += fmt::format("{}{} ", t.forward ? "F" : "B", t.micro_batch);
    return result;
  };
  EXPECT_EQ(text(pipeline_order(3, 4, 1, 3)), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(text(pipeline_order(0, 4, 1, 5)), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  EXPECT_EQ(text(pipeline_order(0, 4, 1, 2)), "F0 F1 B0 B1 ");  // fewer micro-batches than stages
  EXPECT_EQ(text(pipeline_order(0, 1, 1, 2)), "F0 B0 F1 B1 ");
}

TEST(Pipeline, EveryPassRunsOnceForwardBeforeBackward) {
  for (const auto& [stages, interleave, micro] : {std::tuple(4, 2, 8), {4, 3, 4}, {2, 5, 6}, {8, 1, 3}}) {
    for (int stage = 0; stage < stages; ++stage) {
      std::map<std::pair<int, int>, int> seen;
      for (const Turn& turn : pipeline_order(stage, stages, interleave, micro)) {
        int& state = seen[{turn.chunk, turn.micro_batch}];
        EXPECT_EQ(state, turn.forward ? 0 : 1);
        ++state;
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(interleave * micro));
      for (const auto& [key, state] : seen) EXPECT_EQ(state, 2);
    }
  }
}

}  // namespace
}  // namespace reel::sim
