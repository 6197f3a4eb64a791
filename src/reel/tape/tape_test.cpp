#include "reel/tape/tape.h"

#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using testing::copy_of;
using testing::expect_same_bits;
using testing::Model;
using testing::random_values;

// sum of c * y
Tensor weighted_sum(Tape& tape, const Tensor& y, std::uint64_t stream = 1000) {
  return given_loss(tape, y, 0.0, tape.copy_in(y.shape(), random_values(y.shape(), stream)));
}

constexpr std::size_t kLine = 64;  // bytes that the smallest tensor takes: a cache line

std::vector<float> gradient_of(const Parameter& p) { return {p.gradient, p.gradient + p.size()}; }

// --- gradients that meet ------------------------------------------------------------------------------------------
// Small whole numbers, so that sums are exact and every expectation is an equality.

class Sums : public ::testing::Test {
 protected:
  Threads threads{1};
  Pool pool;
  Tape tape{threads, pool, {}};
  const Tensor x = tape.differentiable({3}, std::vector<float>{1, 2, 3});

  Tensor loss_of(const Tensor& y) {  // dy = {1, 10, 100}
    return given_loss(tape, y, 0.0, tape.copy_in({3}, std::vector<float>{1, 10, 100}));
  }
  void expect_gradient(const Tensor& of, float factor) {
    EXPECT_EQ(copy_of(tape.gradient(of).span()), (std::vector<float>{factor, 10 * factor, 100 * factor}));
  }
};

TEST_F(Sums, ATensorAddedToItself) {
  tape.backward(loss_of(add(tape, x, x)));
  expect_gradient(x, 2);
}

// Both sides of a sum hold the same memory as their gradient; what is added to one later must not show in the other.
TEST_F(Sums, WhatIsAddedToOneSideLaterDoesNotReachTheOther) {
  const Tensor y = tape.differentiable({3}, std::vector<float>{4, 5, 6});
  const Tensor first = scale(tape, 3, x), second = scale(tape, 5, y), both = add(tape, x, y);  // backward: both first
  tape.backward(loss_of(add(tape, add(tape, first, second), both)));
  expect_gradient(x, 4);
  expect_gradient(y, 6);
}

TEST_F(Sums, ADiamond) {
  const Tensor left = scale(tape, 2, x), right = scale(tape, 3, x);
  const Tensor both = add(tape, left, right);
  tape.backward(loss_of(add(tape, both, left)));
  expect_gradient(x, 2 + 3 + 2);
}

TEST_F(Sums, RowsOfASharedGradientAreAddedToACopy) {
  const Tensor a = scale(tape, 1, x), b = scale(tape, 1, x);
  const Tensor rows = gather_rows(tape, a.reshaped({3, 1}), {0, 0}).reshaped({2});  // adds to the gradient of a only
  const Tensor sum = add(tape, a, b);
  const Tensor loss = add(tape, loss_of(sum), given_loss(tape, rows, 0, tape.copy_in({2}, std::vector<float>{7, 7})));
  tape.backward(loss);
  EXPECT_EQ(copy_of(tape.gradient(x).span()), (std::vector<float>{2 + 14, 20, 200}));
}

TEST_F(Sums, ALinearLayerDoesNotAddToASharedGradientInPlace) {
  Parameters parameters;
  Parameter& w = parameters.add("w", {1, 1});
  parameters.allocate(Parameters::With::kGradients);
  w.value[0] = 5;
  const Tensor y = tape.differentiable({3}, std::vector<float>{4, 5, 6});
  const Tensor scaled = linear(tape, x.reshaped({3, 1}), w, nullptr).reshaped({3});
  const Tensor sum = add(tape, x, y);  // backward: x and y share a gradient before the layer adds to that of x
  tape.backward(loss_of(add(tape, scaled, sum)));
  expect_gradient(x, 6);
  expect_gradient(y, 1);
}

TEST_F(Sums, AResidualChain) {
  Tensor y = x;
  for (int i = 0; i < 5; ++i) y = add(tape, y, scale(tape, 2, y));  // times 3
  tape.backward(loss_of(y));
  expect_gradient(x, 243);
}

TEST_F(Sums, AReshapedTensorHasTheSameGradient) {
  const Tensor y = scale(tape, 2, x.reshaped({3, 1}));
  tape.backward(loss_of(add(tape, y.reshaped({3}), x)));
  expect_gradient(x, 3);
}

TEST_F(Sums, WhatTheLossDoesNotDependOnGetsZeros) {
  const Tensor unused = tape.differentiable({3}, std::vector<float>{1, 1, 1});
  scale(tape, 2, unused);
  tape.backward(loss_of(x));
  expect_gradient(unused, 0);
  expect_gradient(x, 1);
}

TEST_F(Sums, TheFactorOfTheLossReachesEverything) {
  tape.backward(loss_of(scale(tape, 3, x)), 2.0f);
  expect_gradient(x, 6);
}

TEST_F(Sums, AfterBackwardOnlyHandlesHoldMemory) {
  const Tensor constant = tape.copy_in({3}, std::vector<float>{1, 1, 1});
  const std::size_t before = pool.live_bytes();
  tape.backward(loss_of(add(tape, x, constant)));
  EXPECT_EQ(pool.live_bytes(), before + kLine);  // the gradient of x; constants get none
}

TEST_F(Sums, AValueThatBackwardDoesNotNeedGoesBeforeItsOperationIsWalkedBack) {
  const std::size_t before = pool.live_bytes();
  std::size_t during = 0;
  const auto operation = [&] {
    const Tensor y = tape.make({3});
    tape.record(y, true, [&](Tape&, const Tensor&) { during = pool.live_bytes(); });
    return y;
  };
  const Tensor loss = loss_of(operation());
  tape.backward(loss);
  EXPECT_EQ(during, before + 3 * kLine);  // dy, the loss and its gradient
}

// --- parameters ---------------------------------------------------------------------------------------------------

struct Weights {
  Parameters all;
  Parameter &a = all.add("a", {6, 6}), &b = all.add("b", {6, 6}), &unused = all.add("unused", {6});

  Weights() {
    all.allocate(Parameters::With::kGradients);
    Random(testing::test_seed(), 3).fill_normal(all.trained_values());
    std::fill(all.gradients().begin(), all.gradients().end(), testing::kNan);  // the first use overwrites
  }
};

// The gradients of sum(c * x first^T second^T), added to what is there.
void two_layers(Parameter& first, Parameter& second, std::uint64_t stream,
                std::function<void(Parameter&)> on_final = nullptr) {
  Threads threads(2);
  Pool pool;
  Tape tape(threads, pool, {.on_final = std::move(on_final)});
  const Tensor x = tape.copy_in({7, 6}, random_values({7, 6}, stream));
  const Tensor y = linear(tape, linear(tape, x, first, nullptr), second, nullptr);
  tape.backward(weighted_sum(tape, y, stream + 1));
}

// Sums in another order: f32 rounding of some dozen terms of size 10.
void expect_sum(const std::vector<float>& got, const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], a[i] + b[i], 1e-4) << i;
}

TEST(TapeParameters, UsedTwiceAddsBothGradients) {
  Weights apart, shared;
  std::copy(apart.a.value, apart.a.value + 36, apart.b.value);
  two_layers(apart.a, apart.b, 1);
  two_layers(shared.a, shared.a, 1);
  expect_sum(gradient_of(shared.a), gradient_of(apart.a), gradient_of(apart.b));
}

TEST(TapeParameters, TwoPassesAddUpUntilGradientsAreCleared) {
  Weights one, two, both;
  two_layers(one.a, one.b, 1);
  two_layers(two.a, two.b, 11);
  two_layers(both.a, both.b, 1);
  two_layers(both.a, both.b, 11);
  expect_sum(gradient_of(both.a), gradient_of(one.a), gradient_of(two.a));
  expect_sum(gradient_of(both.b), gradient_of(one.b), gradient_of(two.b));
  both.all.clear_gradients();
  two_layers(both.a, both.b, 1);
  EXPECT_EQ(gradient_of(both.a), gradient_of(one.a));
  EXPECT_EQ(gradient_of(both.b), gradient_of(one.b));
}

TEST(TapeParameters, GradientsThatNobodyTouchedAreZeroedOnDemand) {
  Weights w;
  two_layers(w.a, w.b, 1);
  const std::vector<float> a = gradient_of(w.a);
  w.all.zero_untouched_gradients();
  EXPECT_EQ(gradient_of(w.a), a);
  EXPECT_EQ(gradient_of(w.unused), std::vector<float>(6, 0.0f));
  two_layers(w.a, w.b, 1);  // what was touched still adds up
  expect_sum(gradient_of(w.a), a, a);
}

// --- on_final -----------------------------------------------------------------------------------------------------

// What on_final saw: the order, and the gradient at that moment.
struct Finals {
  std::vector<std::string> names;
  std::map<std::string, std::vector<float>> gradients;
  std::function<void(Parameter&)> hook() {
    return [this](Parameter& p) {
      names.push_back(p.name);
      gradients[p.name] = gradient_of(p);
    };
  }
};

TEST(OnFinal, IsCalledOnceForEachParameterWithItsFinishedGradient) {
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute ? "recomputed" : "kept");
    Model model({});
    Threads threads(1);
    Pool pool;
    Finals finals;
    Tape tape(threads, pool, {.on_final = finals.hook()});
    tape.backward(model.loss(tape, model.input(tape), model.modulation(tape), recompute));
    EXPECT_EQ(finals.names.size(), model.parameters.all().size());
    EXPECT_EQ(finals.gradients.size(), model.parameters.all().size());
    for (const Parameter& p : model.parameters.all()) EXPECT_EQ(finals.gradients[p.name], gradient_of(p)) << p.name;
    // The last block is finished first, while the others have not begun: there is time to send its gradients.
    EXPECT_TRUE(std::is_sorted(finals.names.begin(), finals.names.end(),
                               [](const std::string& a, const std::string& b) { return a[0] > b[0]; }));
  }
}

TEST(OnFinal, WaitsForTheLastUse) {
  Weights w;
  Finals finals;
  two_layers(w.a, w.a, 1, finals.hook());
  EXPECT_EQ(finals.names, std::vector<std::string>{"a"});
  EXPECT_EQ(finals.gradients["a"], gradient_of(w.a));
}

TEST(OnFinal, IsCalledOnceInEveryPass) {
  Weights w;
  Finals finals;
  for (int pass = 0; pass < 2; ++pass) two_layers(w.a, w.b, 1, finals.hook());
  EXPECT_EQ(finals.names, (std::vector<std::string>{"b", "a", "b", "a"}));
}

// In recomputed parts too, where it is known only at the end; the order is the same in every process, since ranks send
// gradients in it.
TEST(OnFinal, WhatTheLossDoesNotDependOnIsFinishedWithZeros) {
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute ? "recomputed" : "kept");
    Threads threads(1);
    Pool pool;
    Parameters parameters;
    std::vector<Parameter*> dead;
    for (const char* name : {"d", "b", "a", "c"}) dead.push_back(&parameters.add(name, {3, 3}));
    Parameter &live = parameters.add("live", {3, 3}), &frozen = parameters.add("frozen", {3, 3}, false);
    parameters.add("never used", {3});
    parameters.allocate(Parameters::With::kGradients);
    std::fill(parameters.gradients().begin(), parameters.gradients().end(), testing::kNan);
    Finals finals;
    Tape tape(threads, pool, {.on_final = finals.hook()});
    const Tensor x = tape.copy_in({2, 3}, random_values({2, 3}, 1));
    const auto branch = [&](Parameter& p) {
      const auto work = [&] { return linear(tape, x, p, nullptr); };
      return recompute ? tape.recompute(work) : work();
    };
    const Tensor y = add(tape, branch(live), branch(frozen));
    for (Parameter* p : dead) branch(*p);
    tape.backward(weighted_sum(tape, y));
    EXPECT_EQ(finals.names, recompute ? (std::vector<std::string>{"live", "a", "b", "c", "d"})
                                      : (std::vector<std::string>{"c", "a", "b", "d", "live"}));
    for (const Parameter* p : dead) EXPECT_EQ(finals.gradients[p->name], std::vector<float>(9, 0.0f));
    EXPECT_EQ(finals.gradients["live"], gradient_of(live));
  }
}

// --- the whole ----------------------------------------------------------------------------------------------------

TEST(Tape, AnyNumberOfThreadsGivesTheSameBits) {
  const Model::Sizes sizes{.batch = 2, .tokens = 290, .heads = 4, .head_dim = 16, .blocks = 1};  // > 2 chunks each
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 3}) {
    Model model(sizes);
    Threads threads(count);
    Pool pool;
    Tape tape(threads, pool, {});
    const Tensor x = model.input(tape), m = model.modulation(tape);
    const Tensor loss = model.loss(tape, x, m, true);
    tape.backward(loss);
    std::vector<float> all = copy_of(model.parameters.gradients());
    for (const Tensor& t : {loss, tape.gradient(x), tape.gradient(m)}) {
      all.insert(all.end(), t.span().begin(), t.span().end());
    }
    results.push_back(std::move(all));
  }
  expect_same_bits(results[1], results[0]);
  expect_same_bits(results[2], results[0]);
}

TEST(Tape, OperationsAreWrittenDownWithLayerAndPhase) {
  for (const bool recompute : {false, true}) {
    Model model({.blocks = 2});
    Threads threads(1);
    Pool pool;
    Recorder recorder;
    Tape tape(threads, pool, {.recorder = &recorder});
    tape.backward(model.loss(tape, model.input(tape), model.modulation(tape), recompute));
    std::vector<std::string> seen;  // without repetition
    for (const Record& r : recorder.records()) {
      EXPECT_GT(flops(r.work) + bytes(r.work), 0) << display_name(r.work);
      const std::string now = fmt::format("{} {}", phase_name(r.work.phase), r.work.layer);
      if (seen.empty() || seen.back() != now) seen.push_back(now);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"forward 0", "forward 1", "forward -1", "backward -1", "backward 1",
                                              "backward 0"}));
  }
}

TEST(Tape, WithoutGradientsNothingIsKept) {
  std::map<std::int64_t, std::size_t> peak;
  for (const std::int64_t blocks : {2, 6}) {
    Model model({.blocks = blocks});
    std::fill(model.parameters.gradients().begin(), model.parameters.gradients().end(), testing::kNan);
    Threads threads(1);
    Pool pool;
    Finals finals;
    Tape tape(threads, pool, {.gradients = false, .on_final = finals.hook()});
    const Tensor loss = model.loss(tape, model.input(tape), model.modulation(tape), false);
    peak[blocks] = pool.peak_bytes();
    EXPECT_FALSE(loss.needs_gradient());
    EXPECT_EQ(pool.live_bytes(), kLine);  // the loss
    tape.backward(loss);
    EXPECT_TRUE(finals.names.empty());
    for (const float g : model.parameters.gradients()) EXPECT_TRUE(std::isnan(g));
  }
  EXPECT_EQ(peak[2], peak[6]);
}

}  // namespace
}  // namespace reel::tape
