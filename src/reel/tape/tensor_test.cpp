#include "reel/tape/tensor.h"

#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using With = Parameters::With;

TEST(Tensor, ReshapedIsTheSameMemory) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {});
  const Tensor x = tape.copy_in({2, 3, 4}, testing::random_values({2, 3, 4}, 1)), y = x.reshaped({6, 4});
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(y.node(), x.node());
  EXPECT_EQ(x.rows(), 6);
  EXPECT_EQ(x.width(), 4);
  EXPECT_EQ(x.dim(-2), 3);
  EXPECT_EQ(x.dim(0), 2);
  EXPECT_EQ(x.size(), 24);
  EXPECT_EQ(shape_text(x.shape()), "[2, 3, 4]");
  EXPECT_EQ(shape_text({}), "[]");
  EXPECT_FALSE(Tensor());
  EXPECT_TRUE(x);
  EXPECT_DEATH(x.reshaped({5, 5}), "elements");
  EXPECT_DEATH(x.item(), "size\\(\\) == 1");
}

struct Layout {
  Parameters all;
  Parameter &frozen = all.add("frozen", {3}, false), &a = all.add("a", {5, 7}), &b = all.add("b", {16});
  Parameter &frozen_too = all.add("frozen too", {2, 2}, false), &c = all.add("c", {1});
};

TEST(Parameters, TrainedOnesComeFirstEachOnACacheLine) {
  Layout p;
  p.all.allocate(With::kGradients);
  EXPECT_EQ(p.all.offset(p.a), 0u);
  EXPECT_EQ(p.all.offset(p.b), 48u);  // 35 numbers take three lines of 16
  EXPECT_EQ(p.all.offset(p.c), 64u);
  EXPECT_EQ(p.all.trained_floats(), 80u);
  EXPECT_EQ(p.all.value_bytes(), (80 + 32) * sizeof(float));
  EXPECT_EQ(p.all.count(), 3 + 35 + 16 + 4 + 1);
  EXPECT_EQ(p.all.trained_count(), 35 + 16 + 1);
  float* const values = p.all.trained_values().data();
  float* const gradients = p.all.gradients().data();
  for (const Parameter* each : {&p.a, &p.b, &p.c}) {
    EXPECT_EQ(each->value, values + p.all.offset(*each));
    EXPECT_EQ(each->gradient, gradients + p.all.offset(*each));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each->value) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each->gradient) % 64, 0u);
  }
  EXPECT_EQ(p.frozen.value, values + 80);
  EXPECT_EQ(p.frozen_too.value, values + 96);
  EXPECT_EQ(p.frozen.gradient, nullptr);
}

TEST(Parameters, BeginAsZerosAndSoDoTheGapsBetweenThem) {
  Layout p;
  p.all.allocate(With::kGradients);
  for (const float x : p.all.trained_values()) EXPECT_EQ(x, 0.0f);
  for (const float x : p.all.gradients()) EXPECT_EQ(x, 0.0f);
  for (const float x : p.frozen.values()) EXPECT_EQ(x, 0.0f);
}

TEST(Parameters, GhostsHaveTheSameLayoutAndNoMemory) {
  for (const With with : {With::kGhost, With::kGhostGradients}) {
    Layout p;
    p.all.allocate(with);
    EXPECT_EQ(p.all.offset(p.b), 48u);
    EXPECT_EQ(p.all.offset(p.c), 64u);
    EXPECT_EQ(p.all.trained_floats(), 80u);
    EXPECT_EQ(p.all.value_bytes(), 112 * sizeof(float));
    for (const Parameter& each : p.all.all()) EXPECT_EQ(each.value, nullptr);
  }
}

TEST(Parameters, ValuesAloneHaveNoGradients) {
  Layout p;
  p.all.allocate(With::kValues);
  for (const Parameter& each : p.all.all()) {
    EXPECT_NE(each.value, nullptr);
    EXPECT_EQ(each.gradient, nullptr);
  }
  p.all.zero_untouched_gradients();  // nothing to do
}

TEST(Parameters, AreFoundByTheirUniqueNames) {
  Layout p;
  EXPECT_EQ(p.all.find("b"), &p.b);
  EXPECT_EQ(std::as_const(p.all).find("frozen too"), &p.frozen_too);
  EXPECT_EQ(p.all.find("d"), nullptr);
  EXPECT_DEATH(p.all.add("b", {2}), "find");
  p.all.allocate(With::kValues);
  EXPECT_DEATH(p.all.add("late", {2}), "floats_ == 0");
}

TEST(Parameters, ReferencesStayValidWhileOthersAreAdded) {
  Parameters parameters;
  Parameter& first = parameters.add("0", {1});
  for (int i = 1; i < 1000; ++i) parameters.add(std::to_string(i), {1});
  EXPECT_EQ(&first, &parameters.all().front());
  EXPECT_EQ(first.name, "0");
}

}  // namespace
}  // namespace reel::tape
