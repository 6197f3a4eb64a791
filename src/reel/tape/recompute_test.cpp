#include <gtest/gtest.h>

#include <stdexcept>

#include "reel/base/testing.h"
#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using testing::copy_of;
using testing::Model;
using testing::random_values;

struct Trained {
  std::vector<float> x, m, parameters;  // gradients
  std::size_t peak = 0;
};

enum class How { kKept, kEachBlock, kNested };

Trained train_once(const Model::Sizes& sizes, How how) {
  Model model(sizes);
  Threads threads(2);
  Pool pool;
  int finals = 0;
  Tape tape(threads, pool, {.on_final = [&](Parameter&) { ++finals; }});
  const Tensor x = model.input(tape), m = model.modulation(tape);
  if (how == How::kNested) {
    const Tensor y = tape.recompute([&] {
      Tensor now = x;
      for (std::int64_t i = 0; i < sizes.blocks; ++i) {
        now = tape.recompute([&, i, now] { return model.block(tape, i, now, m); });
      }
      return now;
    });
    tape.backward(mean_squared_error(tape, y, tape.zeros(y.shape())));
  } else {
    tape.backward(model.loss(tape, x, m, how == How::kEachBlock));
  }
  EXPECT_EQ(finals, static_cast<int>(model.parameters.all().size()));
  return {copy_of(tape.gradient(x).span()), copy_of(tape.gradient(m).span()), copy_of(model.parameters.gradients()),
          pool.peak_bytes()};
}

TEST(Recompute, GivesTheSameBits) {
  const Trained kept = train_once({}, How::kKept);
  for (const How how : {How::kEachBlock, How::kNested}) {
    const Trained again = train_once({}, how);
    testing::expect_same_bits(again.x, kept.x);
    testing::expect_same_bits(again.m, kept.m);
    testing::expect_same_bits(again.parameters, kept.parameters);
  }
}

TEST(Recompute, LowersThePeak) {
  const Model::Sizes sizes{.tokens = 64, .blocks = 8};
  const std::size_t kept = train_once(sizes, How::kKept).peak, recomputed = train_once(sizes, How::kEachBlock).peak;
  // One block of eight is kept at a time, and the inputs of all.
  EXPECT_LT(recomputed, kept / 4);
}

class RecomputeTape : public ::testing::Test {
 protected:
  Threads threads{1};
  Pool pool;
  Parameters parameters;
  Parameter& w = parameters.add("w", {4, 4});
  Tape tape{threads, pool, {}};
  Tensor x = tape.differentiable({3, 4}, random_values({3, 4}, 1));

  RecomputeTape() {
    parameters.allocate(Parameters::With::kGradients);
    Random(testing::test_seed(), 3).fill_normal(parameters.trained_values());
  }
  Tensor layer(const Tensor& t) { return linear(tape, t, w, nullptr, Activation::kSilu); }
  void train(const Tensor& y) {
    tape.backward(given_loss(tape, y, 0.0, tape.copy_in(y.shape(), random_values(y.shape(), 9))));
  }
  void clear_gradients() {
    parameters.clear_gradients();
    std::fill(parameters.gradients().begin(), parameters.gradients().end(), testing::kNan);
  }
  // The gradient of w for layer(layer(x)), and then nothing is left on the tape.
  std::vector<float> gradient_of_two_layers() {
    clear_gradients();
    const Tensor h = tape.recompute([&] { return layer(x); });
    train(tape.recompute([&] { return layer(h); }));
    return {w.gradient, w.gradient + w.size()};
  }
};

TEST_F(RecomputeTape, RerunningIsTrueInTheSecondRunOnly) {
  std::vector<bool> seen;
  const Tensor y = tape.recompute([&] {
    seen.push_back(tape.rerunning());
    return layer(x);
  });
  EXPECT_FALSE(tape.rerunning());
  EXPECT_EQ(seen, std::vector<bool>{false});
  train(y);
  EXPECT_FALSE(tape.rerunning());
  EXPECT_EQ(seen, (std::vector<bool>{false, true}));
}

TEST_F(RecomputeTape, WhatNobodyNeedsIsNotRunAgain) {
  int dead = 0, constant = 0;
  const Tensor c = tape.copy_in({3, 4}, random_values({3, 4}, 2));
  tape.recompute([&] {
    ++dead;
    return layer(x);
  });
  const Tensor shift = tape.recompute([&] {
    ++constant;
    return scale(tape, 2, c);
  });
  EXPECT_FALSE(shift.needs_gradient());
  train(add(tape, layer(x), shift));
  EXPECT_EQ(dead, 1);
  EXPECT_EQ(constant, 1);
}

TEST_F(RecomputeTape, HandsThroughATensorFromOutside) {
  const Tensor y = tape.recompute([&] {
    layer(x);
    return x;
  });
  train(y);
  testing::expect_same_bits(tape.gradient(x).span(), random_values({3, 4}, 9));
}

TEST_F(RecomputeTape, KeepsNothingOfTheFirstRun) {
  const std::size_t before = pool.live_bytes();
  const Tensor y = tape.recompute([&] {
    Tensor t = x;
    for (int i = 0; i < 10; ++i) t = layer(t);
    return t;
  });
  EXPECT_EQ(pool.live_bytes(), before + 64);  // y
}

TEST_F(RecomputeTape, AnExceptionInTheFirstRunLeavesTheTapeAsItWas) {
  const std::vector<float> want = gradient_of_two_layers();
  const Tensor before = layer(x);  // on the tape already
  EXPECT_EQ(message_of([&] {
              tape.recompute([&]() -> Tensor {
                layer(x);
                throw Error("no more memory", "use less");
              });
            }),
            "no more memory | use less");
  clear_gradients();
  train(layer(before));
  testing::expect_same_bits({w.gradient, 16}, want);
}

TEST_F(RecomputeTape, AnExceptionInBackwardEmptiesTheTape) {
  const std::vector<float> want = gradient_of_two_layers();
  for (const bool in_the_walk : {false, true}) {
    const Tensor h = layer(x);
    const Tensor y = tape.recompute([&] {
      if (tape.rerunning() && !in_the_walk) throw Error("second run");
      const Tensor out = tape.make(h.shape());
      tape.record(out, true, [&](Tape&, const Tensor&) { throw Error("walk"); });
      return out;
    });
    EXPECT_EQ(message_of([&] { train(y); }), in_the_walk ? "walk | " : "second run | ");
    EXPECT_FALSE(tape.rerunning());
    x = tape.differentiable({3, 4}, random_values({3, 4}, 1));
    EXPECT_EQ(gradient_of_two_layers(), want);
  }
}

TEST_F(RecomputeTape, ATapeLeftInTheMiddleGivesItsMemoryBack) {
  // With steps of both kinds on it; the pool checks in its destructor that everything came back.
  layer(tape.recompute([&] { return layer(x); }));
}

}  // namespace
}  // namespace reel::tape
