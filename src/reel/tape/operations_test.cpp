#include "reel/tape/operations.h"

#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using testing::Arrays;
using testing::check;
using testing::Tensors;
using Table = std::deque<Parameter>;

// Far from 0, so that an eps that is left out or put in the wrong place shows.
constexpr float kEps = 0.05f;

const std::vector<std::pair<const char*, Activation>> kActivations = {{"none", Activation::kNone},
                                                                      {"gelu tanh", Activation::kGeluTanh},
                                                                      {"gelu erf", Activation::kGeluErf},
                                                                      {"silu", Activation::kSilu}};

TEST(Operations, LinearWithAndWithoutBiasAndActivation) {
  for (const auto& [name, kind] : kActivations) {
    for (const bool bias : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, bias {}", name, bias));
      std::vector<Shape> parameters = {{5, 7}};
      if (bias) parameters.push_back({5});
      check([&, k = kind](Tape& t, const Tensors& x,
                          Table& p) { return linear(t, x[0], p[0], bias ? &p[1] : nullptr, k); },
            {{2, 3, 7}}, parameters,
            [&, k = kind](const Arrays& x, const Arrays& p) {
              return reference::linear(x[0], p[0], bias ? &p[1] : nullptr, k);
            });
    }
  }
}

TEST(Operations, LinearCountsFurtherAxesOfTheWeightAsInputs) {
  check([](Tape& t, const Tensors& x, Table& p) { return linear(t, x[0], p[0], &p[1]); }, {{3, 12}},
        {{5, 3, 1, 2, 2}, {5}}, [](const Arrays& x, const Arrays& p) { return reference::linear(x[0], p[0], &p[1]); });
}

TEST(Operations, MlpIsTwoLinearLayers) {
  for (const auto& [name, kind] : kActivations) {
    SCOPED_TRACE(name);
    check([k = kind](Tape& t, const Tensors& x, Table& p) { return mlp(t, x[0], p[0], &p[1], k, p[2], &p[3]); },
          {{2, 3, 7}}, {{11, 7}, {11}, {5, 11}, {5}},
          [k = kind](const Arrays& x, const Arrays& p) {
            return reference::linear(reference::linear(x[0], p[0], &p[1], k), p[2], &p[3]);
          });
  }
}

TEST(Operations, Activations) {
  for (const auto& [name, kind] : kActivations) {
    SCOPED_TRACE(name);
    check([k = kind](Tape& t, const Tensors& x, Table&) { return activation(t, k, x[0]); }, {{3, 2, 11}}, {},
          [k = kind](const Arrays& x, const Arrays&) { return reference::activation(k, x[0]); });
  }
}

TEST(Operations, AddAndScale) {
  check([](Tape& t, const Tensors& x, Table&) { return add(t, x[0], x[1]); }, {{2, 3, 5}, {2, 3, 5}}, {},
        [](const Arrays& x, const Arrays&) { return reference::add(x[0], x[1]); });
  check([](Tape& t, const Tensors& x, Table&) { return add(t, x[0], x[0]); }, {{2, 3, 5}}, {},
        [](const Arrays& x, const Arrays&) { return reference::add(x[0], x[0]); });
  check([](Tape& t, const Tensors& x, Table&) { return scale(t, -1.75f, x[0]); }, {{2, 3, 5}}, {},
        [](const Arrays& x, const Arrays&) { return reference::scale(-1.75, x[0]); });
}

TEST(Operations, TablesAndConstantsRepeatOverTheLeadingAxes) {
  for (const Shape& table : {Shape{6, 5}, Shape{1, 6, 5}, Shape{5}}) {
    SCOPED_TRACE(shape_text(table));
    check([](Tape& t, const Tensors& x, Table& p) { return add_table(t, x[0], p[0]); }, {{3, 6, 5}}, {table},
          [](const Arrays& x, const Arrays& p) { return reference::add(x[0], p[0]); });
  }
  const auto values = std::make_shared<Buffer<float>>(12);
  Random(testing::test_seed(), 99).fill_normal(*values);
  check([&](Tape& t, const Tensors& x, Table&) { return add_constant(t, x[0], values); }, {{5, 3, 4}}, {},
        [&](const Arrays& x, const Arrays&) {
          return reference::add(x[0], testing::doubles({3, 4}, *values));
        });
}

TEST(Operations, RowsByIndexAddUpWhereTheyRepeat) {
  const std::vector<std::int32_t> index = {3, 0, 3, 3, 2};  // row 1 is never used: its gradient is 0
  check([&](Tape& t, const Tensors& x, Table&) { return gather_rows(t, x[0], index); }, {{4, 5}}, {},
        [&](const Arrays& x, const Arrays&) { return reference::gather_rows(x[0], index); });
  check([&](Tape& t, const Tensors& x, Table&) { return repeat_rows(t, x[0], 3); }, {{4, 5}}, {},
        [&](const Arrays& x, const Arrays&) { return reference::repeat_rows(x[0], 3); });
  check([&](Tape& t, const Tensors& x, Table&) { return gather_rows(t, x[0], {}); }, {{4, 5}}, {},
        [&](const Arrays& x, const Arrays&) { return reference::gather_rows(x[0], {}); });
}

TEST(Operations, LayerNormWithEveryMixOfWeightAndBias) {
  for (const bool weight : {false, true}) {
    for (const bool bias : {false, true}) {
      SCOPED_TRACE(fmt::format("weight {}, bias {}", weight, bias));
      check(
          [&](Tape& t, const Tensors& x, Table& p) {
            return layer_norm(t, x[0], {weight ? &p.front() : nullptr, bias ? &p.back() : nullptr}, kEps);
          },
          {{2, 3, 9}}, std::vector<Shape>(weight + bias, Shape{9}),
          [&](const Arrays& x, const Arrays& p) {
            return reference::layer_norm(x[0], weight ? &p.front() : nullptr, bias ? &p.back() : nullptr, kEps);
          });
    }
  }
}

TEST(Operations, RmsNormOverTheLastAxisAndOverHeads) {
  for (const std::int64_t width : {0, 12, 4}) {  // 4: three heads of 4
    for (const bool weight : {false, true}) {
      SCOPED_TRACE(fmt::format("width {}, weight {}", width, weight));
      check(
          [&](Tape& t, const Tensors& x, Table& p) { return rms_norm(t, x[0], weight ? &p[0] : nullptr, kEps, width); },
          {{2, 3, 12}}, std::vector<Shape>(weight, Shape{width == 0 ? 12 : width}),
          [&](const Arrays& x, const Arrays& p) {
            return reference::rms_norm(x[0], weight ? &p[0] : nullptr, kEps, width);
          });
    }
  }
}

TEST(Operations, NormModulateTakesItsVectorsFromTheItemOfTheRow) {
  for (const std::int64_t items : {1, 2, 6}) {  // one for all, a batch entry, a frame
    SCOPED_TRACE(items);
    check([](Tape& t, const Tensors& x, Table&) { return norm_modulate(t, x[0], x[1], 2, 0, kEps); },
          {{2, 3, 2, 7}, {items, 3, 7}}, {},
          [](const Arrays& x, const Arrays&) { return reference::norm_modulate(x[0], x[1], 2, 0, kEps); });
  }
}

TEST(Operations, GatedResidualTakesItsVectorFromTheItemOfTheRow) {
  for (const std::int64_t items : {1, 2, 6}) {
    SCOPED_TRACE(items);
    check([](Tape& t, const Tensors& x, Table&) { return gated_residual(t, x[0], x[1], x[2], 1); },
          {{2, 3, 2, 7}, {2, 3, 2, 7}, {items, 3, 7}}, {},
          [](const Arrays& x, const Arrays&) { return reference::gated_residual(x[0], x[1], x[2], 1); });
  }
}

// One modulation, used by two operations, with one vector in common.
TEST(Operations, VectorsOfOneModulationAddUp) {
  check(
      [](Tape& t, const Tensors& x, Table&) {
        const Tensor r = norm_modulate(t, x[0], x[1], 0, 1, kEps);
        return gated_residual(t, x[0], r, x[1], 1);
      },
      {{4, 7}, {2, 2, 7}}, {},
      [](const Arrays& x, const Arrays&) {
        return reference::gated_residual(x[0], reference::norm_modulate(x[0], x[1], 0, 1, kEps), x[1], 1);
      });
}

TEST(Operations, MeanSquaredError) {
  const std::vector<float> target = testing::random_values({3, 7}, 50);
  check(
      [&](Tape& t, const Tensors& x, Table&) {
        return mean_squared_error(t, x[0], t.copy_in({3, 7}, target));
      },
      {{3, 7}}, {},
      [&](const Arrays& x, const Arrays&) {
        return reference::mean_squared_error(x[0], testing::doubles({3, 7}, target));
      });
}

TEST(Operations, ShapesThatDoNotFitAreBugs) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {});
  Parameters parameters;
  Parameter &w = parameters.add("w", {3, 4}), &vector = parameters.add("vector", {4});
  parameters.allocate(Parameters::With::kValues);
  const Tensor x = tape.zeros({2, 5}), m = tape.zeros({2, 2, 5}), wanted = tape.differentiable({1}, {{0.0f}});
  EXPECT_DEATH(linear(tape, x, w, nullptr), "w.size");
  EXPECT_DEATH(linear(tape, tape.zeros({2, 4}), w, &vector), "b->size");
  EXPECT_DEATH(layer_norm(tape, x, {&vector, nullptr}, kEps), "fits");
  EXPECT_DEATH(layer_norm(tape, x, {nullptr, &vector}, kEps), "fits");
  EXPECT_DEATH(rms_norm(tape, x, &vector, kEps), "fits");
  EXPECT_DEATH(add(tape, x, m), "size");
  EXPECT_DEATH(add_table(tape, x, vector), "rows \\* width");
  EXPECT_DEATH(norm_modulate(tape, x, m, 0, 2, kEps), "which");
  EXPECT_DEATH(norm_modulate(tape, tape.zeros({3, 5}), m, 0, 1, kEps), "rows");
  EXPECT_DEATH(gated_residual(tape, x, x, m, -1), "which");
  EXPECT_DEATH(slice(tape, x, 1, 3, 3), "first");
  EXPECT_DEATH(mean_squared_error(tape, tape.zeros({1}), wanted), "target");
  // Gradients of parameters that have no memory for them.
  const Tensor y = linear(tape, tape.zeros({2, 4}), w, nullptr);
  EXPECT_DEATH(tape.backward(given_loss(tape, y, 0, tape.zeros({2, 3}))), "gradient");
}

// Whatever the loss is multiplied with, and whoever still holds the gradient that was handed in.
TEST(Operations, GivenLossHandsItsGradientOnTimesThatOfTheLoss) {
  Threads threads(1);
  for (const float dloss : {1.0f, -0.25f}) {
    std::vector<std::string> written[2];
    std::size_t peak[2];
    for (const bool ghost : {false, true}) {
      Pool pool(ghost);
      Recorder recorder;
      Tape tape(threads, pool, {.recorder = &recorder});
      const Tensor x = tape.differentiable({2, 3}, testing::random_values({2, 3}, 1));
      const std::vector<float> c = testing::random_values({2, 3}, 2);
      const Tensor gradient = tape.copy_in({2, 3}, c);
      const Tensor loss = given_loss(tape, add(tape, x, x), 1.5, gradient);
      tape.backward(loss, dloss);
      written[ghost] = testing::lines(recorder);
      peak[ghost] = pool.peak_bytes();
      if (ghost) continue;
      EXPECT_EQ(loss.item(), 1.5f);
      for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(tape.gradient(x).data()[i], 2 * dloss * c[i]);
      testing::expect_same_bits(gradient.span(), c);
    }
    EXPECT_EQ(written[0], written[1]);
    EXPECT_EQ(peak[0], peak[1]);
  }
}

}  // namespace
}  // namespace reel::tape
