#include "reel/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reel/kernels/testing.h"

namespace reel::optim {
namespace {

using kernels::testing::expect_close;
using kernels::testing::expect_same_bits;
using kernels::testing::kNan;

// Parameters "a" and "b", and between them one that is not trained.
struct Weights {
  explicit Weights(std::int64_t size = 5) {
    a = &parameters.add("a", {size});
    frozen = &parameters.add("frozen", {3}, false);
    b = &parameters.add("b", {2, 3});
    parameters.allocate(tape::Parameters::With::kGradients);
    for (tape::Parameter& p : parameters.all()) Random(1, ++stream_).fill_normal(p.values());
    draw_gradients();
  }
  void draw_gradients() {
    std::fill(parameters.gradients().begin(), parameters.gradients().end(), 0.0f);  // the gaps, too
    for (tape::Parameter* p : {a, b}) Random(1, ++stream_).fill_normal(gradient(*p));
  }
  static std::span<float> gradient(const tape::Parameter& p) {
    return {p.gradient, static_cast<std::size_t>(p.size())};
  }
  std::vector<float> values() { return {parameters.trained_values().begin(), parameters.trained_values().end()}; }

  tape::Parameters parameters;
  tape::Parameter *a, *b, *frozen;

 private:
  std::uint64_t stream_ = 0;
};

void step(Optimizer& optimizer, double lr, Threads& threads) {
  optimizer.step(lr, optimizer.gradient_norm(threads), threads);
}

TEST(LearningRate, RisesLinearlyThenFollowsTheSchedule) {
  OptimConfig c;
  c.lr = 2;
  c.warmup = 10;
  c.final_lr = 0.1;
  const auto rate = [&](const char* schedule, std::int64_t step) {
    c.schedule = schedule;
    return learning_rate(c, step, 110);
  };
  for (const char* schedule : {"constant", "cosine", "linear"}) {
    EXPECT_DOUBLE_EQ(rate(schedule, 1), 0.2);
    EXPECT_DOUBLE_EQ(rate(schedule, 5), 1.0);
    EXPECT_DOUBLE_EQ(rate(schedule, 10), 2.0);
  }
  for (const std::int64_t step : {11, 60, 110, 500}) EXPECT_EQ(rate("constant", step), 2.0);
  EXPECT_NEAR(rate("cosine", 11), 2.0, 1e-3);
  EXPECT_NEAR(rate("cosine", 35), 2 * (0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))), 1e-12);  // a quarter of the way
  EXPECT_NEAR(rate("cosine", 60), 2 * 0.55, 1e-12);
  EXPECT_NEAR(rate("cosine", 110), 2 * 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(rate("linear", 80), 2.0);  // the last 30 of 100 steps fall
  EXPECT_NEAR(rate("linear", 85), 2 * 0.85, 1e-12);
  EXPECT_NEAR(rate("linear", 95), 2 * 0.55, 1e-12);
  EXPECT_NEAR(rate("linear", 110), 2 * 0.1, 1e-12);
  for (const char* schedule : {"cosine", "linear"}) EXPECT_NEAR(rate(schedule, 500), 2 * 0.1, 1e-12);
}

TEST(LearningRate, NeedsNoWarmUpAndMayBeNothingElse) {
  OptimConfig c;
  c.schedule = "cosine";
  c.warmup = 0;
  EXPECT_NEAR(learning_rate(c, 1, 1000), c.lr, 1e-5 * c.lr);
  EXPECT_NEAR(learning_rate(c, 1, 1), c.final_lr * c.lr, 1e-12);
  c.warmup = 50;
  EXPECT_DOUBLE_EQ(learning_rate(c, 25, 30), c.lr / 2);
}

TEST(Optimizer, IsAdamWWithTheNumbersOfItsConfiguration) {
  OptimConfig c;
  c.beta1 = 0.8;
  c.beta2 = 0.9;
  c.eps = 0.1;
  c.weight_decay = 0.3;
  c.clip = 0;
  Threads threads(1);
  Weights weights;
  Optimizer optimizer(c, weights.parameters);
  std::vector<double> p(weights.a->values().begin(), weights.a->values().end()), m(p.size()), v(p.size());
  for (int n = 1; n <= 3; ++n) {
    weights.draw_gradients();
    const double lr = 0.1 * n;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = weights.a->gradient[i];
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.9 * v[i] + 0.1 * g * g;
      p[i] -= lr * 0.3 * p[i] + lr * (m[i] / (1 - std::pow(0.8, n))) / (std::sqrt(v[i] / (1 - std::pow(0.9, n))) + 0.1);
    }
    step(optimizer, lr, threads);
    // A few roundings of numbers of size one; the smallest term is about 0.01.
    expect_close(weights.a->values(), p, 1e-6, 0);
  }
  EXPECT_EQ(optimizer.steps_done(), 3);
}

TEST(Optimizer, StateIsFlatAndLaidOutAsTheParameters) {
  OptimConfig c;
  c.ema = 0.9;
  c.clip = 0;
  Threads threads(2);
  Weights weights;
  const std::vector<float> frozen(weights.frozen->values().begin(), weights.frozen->values().end());
  Optimizer optimizer(c, weights.parameters);
  expect_same_bits(optimizer.average(), weights.parameters.trained_values());
  step(optimizer, 0.1, threads);
  const std::size_t floats = weights.parameters.trained_floats();
  ASSERT_EQ(optimizer.first_moment().size(), floats);
  ASSERT_EQ(optimizer.second_moment().size(), floats);
  ASSERT_EQ(optimizer.average().size(), floats);
  std::vector<double> first(floats), second(floats);  // zeros in the gaps
  for (const tape::Parameter* p : {weights.a, weights.b}) {
    const std::size_t offset = weights.parameters.offset(*p);
    for (std::size_t i = 0; i < static_cast<std::size_t>(p->size()); ++i) {
      const double g = p->gradient[i];
      first[offset + i] = (1 - c.beta1) * g;
      second[offset + i] = (1 - c.beta2) * g * g;
    }
  }
  expect_close(optimizer.first_moment(), first, 0, 1e-6);
  expect_close(optimizer.second_moment(), second, 0, 1e-6);
  expect_same_bits(weights.frozen->values(), frozen);
}

TEST(Optimizer, StateBytesAreThoseOfTheState) {
  for (const double ema : {0.0, 0.99}) {
    OptimConfig c;
    c.ema = ema;
    Weights weights;
    Optimizer optimizer(c, weights.parameters);
    const std::size_t floats =
        optimizer.first_moment().size() + optimizer.second_moment().size() + optimizer.average().size();
    EXPECT_EQ(Optimizer::state_bytes(c, weights.parameters.trained_floats()), floats * sizeof(float));
    EXPECT_EQ(optimizer.has_average(), ema > 0);
  }
}

// eps is large, so that the update depends on the size of the gradients, as it hardly does in Adam otherwise.
TEST(Optimizer, ClippingIsAStepWithScaledGradients) {
  OptimConfig clipped;
  clipped.eps = 1;
  clipped.clip = 0.5;
  OptimConfig plain = clipped;
  plain.clip = 0;
  Threads threads(1);
  Weights a, b, untouched;
  Optimizer with(clipped, a.parameters), without(plain, b.parameters), free(plain, untouched.parameters);
  const double norm = with.gradient_norm(threads);
  ASSERT_GT(norm, 1);
  for (float& g : b.parameters.gradients()) g *= static_cast<float>(0.5 / norm);
  step(with, 0.1, threads);
  step(without, 0.1, threads);
  step(free, 0.1, threads);
  const std::vector<double> want(b.parameters.trained_values().begin(), b.parameters.trained_values().end());
  expect_close(a.parameters.trained_values(), want, 1e-7, 1e-6);
  EXPECT_GT(std::abs(a.a->value[0] - untouched.a->value[0]), 1e-4);  // the comparison above can fail
}

TEST(Optimizer, GradientsBelowTheClipAreLeftAlone) {
  OptimConfig c;
  c.clip = 1e6;
  Threads threads(1);
  Weights a, b;
  Optimizer loose(c, a.parameters);
  c.clip = 0;
  Optimizer off(c, b.parameters);
  step(loose, 0.1, threads);
  step(off, 0.1, threads);
  expect_same_bits(a.parameters.trained_values(), b.parameters.trained_values());
}

TEST(Optimizer, TheNormIsThatOfAllGradientsAndNotFiniteWhenOneIsNot) {
  Threads threads(2);
  Weights weights;
  Optimizer optimizer({}, weights.parameters);
  double squares = 0;
  for (const tape::Parameter* p : {weights.a, weights.b}) {
    for (const float g : Weights::gradient(*p)) squares += static_cast<double>(g) * g;
  }
  EXPECT_NEAR(optimizer.gradient_norm(threads), std::sqrt(squares), 1e-6);
  weights.b->gradient[5] = kNan;
  EXPECT_FALSE(std::isfinite(optimizer.gradient_norm(threads)));
}

// The decay of step n is (1 + n) / (10 + n) until that reaches the one of the configuration.
TEST(Optimizer, TheAverageCatchesUpAtFirst) {
  OptimConfig c;
  c.ema = 0.3;
  Threads threads(1);
  Weights weights;
  Optimizer optimizer(c, weights.parameters);
  double average = weights.a->value[0];
  const double decays[] = {2.0 / 11, 3.0 / 12, 0.3, 0.3};  // 4 / 13 is more than 0.3
  for (const double decay : decays) {
    weights.draw_gradients();
    step(optimizer, 0.5, threads);
    average = decay * average + (1 - decay) * weights.a->value[0];
    EXPECT_NEAR(optimizer.average()[0], average, 1e-6);
  }
  optimizer.start_average();
  expect_same_bits(optimizer.average(), weights.parameters.trained_values());
}

TEST(Optimizer, FindsTheMinimumOfAQuadratic) {
  OptimConfig c;
  c.lr = 0.1;
  c.schedule = "cosine";
  c.final_lr = 0;
  Threads threads(1);
  Weights weights;
  Optimizer optimizer(c, weights.parameters);
  const float target[] = {3, -2, 0.5f, 0, 10};
  for (std::int64_t n = 1; n <= 500; ++n) {
    std::fill(weights.parameters.gradients().begin(), weights.parameters.gradients().end(), 0.0f);
    for (std::size_t i = 0; i < 5; ++i) weights.a->gradient[i] = 2 * (weights.a->value[i] - target[i]);
    step(optimizer, learning_rate(c, n, 500), threads);
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(weights.a->value[i], target[i], 1e-3);
}

TEST(Optimizer, AnyNumberOfThreadsGivesTheSameBits) {
  OptimConfig c;
  c.ema = 0.99;
  const auto run = [&](int count) {
    Threads threads(count);
    Weights weights(200'003);
    Optimizer optimizer(c, weights.parameters);
    for (int n = 0; n < 2; ++n) step(optimizer, 0.01, threads);
    std::vector<float> all = weights.values();
    for (const auto part : {optimizer.first_moment(), optimizer.second_moment(), optimizer.average()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    all.push_back(static_cast<float>(optimizer.gradient_norm(threads)));
    return all;
  };
  const std::vector<float> one = run(1);
  for (const int count : {2, 3}) expect_same_bits(run(count), one);
}

TEST(Optimizer, GoesOnFromItsStateWithTheSameBits) {
  OptimConfig c;
  c.ema = 0.99;
  Threads threads(1);
  Weights straight, before, after;
  Optimizer whole(c, straight.parameters), first(c, before.parameters), second(c, after.parameters);
  step(whole, 0.1, threads);
  step(whole, 0.1, threads);
  step(first, 0.1, threads);
  const auto copy = [](std::span<const float> from, std::span<float> to) {
    std::copy(from.begin(), from.end(), to.begin());
  };
  copy(before.parameters.trained_values(), after.parameters.trained_values());
  copy(first.first_moment(), second.first_moment());
  copy(first.second_moment(), second.second_moment());
  copy(first.average(), second.average());
  second.set_steps_done(first.steps_done());
  step(second, 0.1, threads);
  expect_same_bits(after.parameters.trained_values(), straight.parameters.trained_values());
  expect_same_bits(second.average(), whole.average());
}

}  // namespace
}  // namespace reel::optim
