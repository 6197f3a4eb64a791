#include <gtest/gtest.h>

#include "reel/parallel/testing.h"
#include "reel/parallel/zero.h"

namespace reel::parallel {
namespace {

using testing::copy_of;
using testing::random_values;
using testing::world;

// Sizes that no number of ranks divides, one smaller than any number of ranks, one that is not trained.
void add_parameters(tape::Parameters& parameters) {
  for (const std::int64_t size : {7, 1, 40, 3, 100, 33}) parameters.add(fmt::format("p{}", size), {size}, size != 3);
  parameters.allocate(tape::Parameters::With::kGradients);
}

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values = random_values({static_cast<std::int64_t>(count)}, static_cast<std::uint64_t>(rank) + 10);
  return values;
}

TEST(Zero, OwnedGradientsAreTheSumsInRankOrder) {
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{50}, std::size_t{100000}}) {
    tape::Parameters parameters;
    add_parameters(parameters);
    const std::size_t count = parameters.trained_floats();
    Zero zero(parameters, world(), bucket);
    std::vector<float> sum = values_of(0, count);
    for (int r = 1; r < world().size(); ++r) {
      const std::vector<float> other = values_of(r, count);
      for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
    }
    for (int step = 0; step < 2; ++step) {
      const std::vector<float> own = values_of(world().rank(), count);
      std::copy(own.begin(), own.end(), parameters.gradients().begin());
      // Backward ends with the first parameters; one of them (p40) nothing depends on.
      for (auto p = parameters.all().rbegin(); p != parameters.all().rend(); ++p) {
        if (p->trained && p->name != "p40") zero.final(*p);
      }
      zero.finish();
      for (const optim::Range& range : zero.owned()) {
        for (std::size_t i = range.begin; i < range.end; ++i) EXPECT_EQ(parameters.gradients()[i], sum[i]) << i;
      }
    }
    // Ranges of all ranks together are everything, once.
    std::vector<float> times(count, 0.0f);
    for (const optim::Range& range : zero.owned()) {
      for (std::size_t i = range.begin; i < range.end; ++i) times[i] += 1;
    }
    world().all_reduce(std::span<float>(times));
    EXPECT_EQ(times, std::vector<float>(count, 1.0f));
  }
}

TEST(Zero, WhatRanksOwnComesTogether) {
  tape::Parameters parameters;
  add_parameters(parameters);
  const std::size_t count = parameters.trained_floats();
  Zero zero(parameters, world(), 50);
  const std::vector<float> expected = values_of(99, count);
  std::vector<float> x(count, 0.0f), own;
  for (const optim::Range& range : zero.owned()) {
    for (std::size_t i = range.begin; i < range.end; ++i) x[i] = expected[i], own.push_back(expected[i]);
  }
  zero.gather(x);
  EXPECT_EQ(x, expected);
  const Buffer<float> at_root = zero.gather_at_root(own);
  if (world().rank() == 0) {
    EXPECT_EQ(copy_of(at_root), expected);
  } else {
    EXPECT_EQ(at_root.size(), 0u);
  }
}

}  // namespace
}  // namespace reel::parallel
