#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using testing::Model;

struct Result {
  std::vector<std::string> lines;
  std::size_t peak = 0, after = 0;
};

Result train(bool ghost, bool recompute, std::initializer_list<std::int64_t> tokens_of_steps) {
  Threads threads(1);
  Pool pool(ghost);
  Recorder recorder;
  std::vector<std::string> finals;
  for (const std::int64_t tokens : tokens_of_steps) {
    Model model({.tokens = tokens, .blocks = 4}, ghost);
    Tape tape(threads, pool, {.recorder = &recorder, .on_final = [&](Parameter& p) { finals.push_back(p.name); }});
    const Tensor loss = model.loss(tape, model.input(tape), model.modulation(tape), recompute);
    tape.backward(loss, 0.5f);
    if (ghost) {
      EXPECT_EQ(loss.data(), nullptr);
      EXPECT_EQ(loss.item(), 0.0f);
    }
  }
  Result result{testing::lines(recorder), pool.peak_bytes(), pool.held_bytes()};
  result.lines.insert(result.lines.end(), finals.begin(), finals.end());
  return result;
}

TEST(Ghost, WritesDownWhatARealRunWritesDownAndCountsTheSameMemory) {
  for (const bool recompute : {false, true}) {
    // Steps of one size, and steps between which the pool has to make room.
    for (const auto& steps : {std::initializer_list<std::int64_t>{9}, {9, 9, 9}, {9, 40, 7}}) {
      SCOPED_TRACE(fmt::format("{} steps, recompute {}", steps.size(), recompute));
      const Result real = train(false, recompute, steps), ghost = train(true, recompute, steps);
      EXPECT_EQ(ghost.lines, real.lines);
      EXPECT_EQ(ghost.peak, real.peak);
      EXPECT_EQ(ghost.after, real.after);
    }
  }
}

TEST(Ghost, HoldsNoDataWhateverTheSize) {
  Threads threads(1);
  Pool pool(true);
  Tape tape(threads, pool, {});
  Parameters parameters;
  Parameter& w = parameters.add("w", {1 << 20, 1 << 20});  // 4 TiB
  parameters.allocate(Parameters::With::kGhostGradients);
  EXPECT_EQ(w.value, nullptr);
  EXPECT_EQ(parameters.value_bytes(), std::size_t{1} << 42);
  const Tensor x = tape.differentiable({1 << 20, 1 << 20}, {});
  EXPECT_TRUE(tape.ghost());
  EXPECT_EQ(x.data(), nullptr);
  const Tensor y = linear(tape, x, w, nullptr);
  EXPECT_EQ(y.shape(), (Shape{1 << 20, 1 << 20}));
  tape.backward(mean_squared_error(tape, y, tape.zeros(y.shape())));
  EXPECT_EQ(tape.gradient(x).data(), nullptr);
  EXPECT_GT(pool.peak_bytes(), std::size_t{3} << 42);
}

}  // namespace
}  // namespace reel::tape
