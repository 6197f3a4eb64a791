// What the tests of the tape share: one harness for all operations, and a little transformer. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "reel/attention/testing.h"
#include "reel/kernels/testing.h"
#include "reel/tape/operations.h"
#include "reel/tape/reference.h"

namespace reel::tape::testing {

using attention::test_seed;
using kernels::testing::expect_close;
using kernels::testing::expect_same_bits;
using kernels::testing::kNan;
using reference::Array;

inline std::vector<float> random_values(const Shape& shape, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(elements(shape)));
  Random(test_seed(), stream).fill_normal(values);
  return values;
}

inline Array doubles(const Shape& shape, std::span<const float> values) {
  return {shape, std::vector<double>(values.begin(), values.end())};
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// What a recorder saw, without the times.
inline std::vector<std::string> lines(const Recorder& recorder) {
  std::vector<std::string> all;
  for (const Record& r : recorder.records()) {
    all.push_back(describe(r.work));
  }
  return all;
}

// Leaves NaN in what the pool hands out next, so that memory which an operation forgets to write is seen.
inline void poison(Pool& pool) {
  std::vector<std::shared_ptr<Pool::Block>> blocks;
  for (std::size_t floats = 16; floats <= 768; floats += 16) {
    for (int i = 0; i < 6; ++i) {
      blocks.push_back(pool.take(floats));
      std::fill_n(blocks.back()->data(), floats, kNan);
    }
  }
}

// --- gradients of operations --------------------------------------------------------------------------------------
// L = sum of c * operation(x, p) with random x, p and c. Values and gradients are those of the reference and of its
// central differences; each gradient has the same bits when it is the only one wanted; two uses give twice the
// gradient; a ghost writes down the same operations and counts the same bytes.

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;
using Operate = std::function<Tensor(Tape&, const Tensors& x, std::deque<Parameter>& p)>;
using Reference = std::function<Array(const Arrays& x, const Arrays& p)>;

// f32 sums of up to some hundred terms of size one. A term that is missing is about 1.
constexpr double kTolerance = 1e-5;

inline void expect_near(std::span<const float> got, const std::vector<double>& want) {
  expect_close(got, want, kTolerance * std::max(1.0, attention::largest_of(want)), 0.0);
}

class OperationTest {
 public:
  OperationTest(Operate operate, std::vector<Shape> inputs, std::vector<Shape> parameters)
      : operate_(std::move(operate)), inputs_(std::move(inputs)), parameters_(std::move(parameters)) {
    for (const Shape& shape : inputs_) values_.push_back(random_values(shape, values_.size()));
    for (const Shape& shape : parameters_) values_.push_back(random_values(shape, values_.size()));
  }

  void check(const Reference& reference) const {
    Arrays all;
    for (std::size_t i = 0; i < values_.size(); ++i) all.push_back(doubles(shape(i), values_[i]));
    const auto expected = [&] {
      const auto end_of_inputs = all.begin() + static_cast<std::ptrdiff_t>(inputs_.size());
      return reference(Arrays(all.begin(), end_of_inputs), Arrays(end_of_inputs, all.end()));
    };
    const Result once = run({.poisoned = true}), twice = run({.uses = 2});
    {
      SCOPED_TRACE("forward");
      const Array y = expected();
      EXPECT_EQ(once.shape, y.shape);
      expect_near(once.y, y.values);
    }
    const std::vector<float> c = random_values(once.shape, kStreamOfC);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      SCOPED_TRACE(i < inputs_.size() ? fmt::format("gradient of input {}", i)
                                      : fmt::format("gradient of parameter {}", i - inputs_.size()));
      std::vector<double> want = kernels::testing::numeric_gradient(all[i].values, [&](const std::vector<double>& x) {
        const std::vector<double> before = std::exchange(all[i].values, x);
        const double loss = kernels::testing::inner_product(expected().values, doubles(once.shape, c).values);
        all[i].values = before;
        return loss;
      });
      expect_near(once.gradients[i], want);
      expect_same_bits(run({.only = static_cast<int>(i)}).gradients[i], once.gradients[i]);
      for (double& g : want) g *= 2;
      SCOPED_TRACE("used twice");
      expect_near(twice.gradients[i], want);
    }
    for (const int uses : {1, 2}) {
      const Result real = run({.uses = uses}), ghost = run({.ghost = true, .uses = uses});
      EXPECT_EQ(ghost.lines, real.lines);
      EXPECT_EQ(ghost.peak, real.peak);
    }
  }

 private:
  static constexpr std::uint64_t kStreamOfC = 1000;

  struct How {
    bool ghost = false, poisoned = false;
    int uses = 1;
    int only = -1;  // the one whose gradient is wanted; -1: all
  };
  struct Result {
    Shape shape;
    std::vector<float> y;
    std::vector<std::vector<float>> gradients;  // of the inputs, then of the parameters
    std::vector<std::string> lines;
    std::size_t peak = 0;
  };

  const Shape& shape(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : parameters_[i - inputs_.size()]; }

  Result run(const How& how) const {
    Threads threads(2);
    Recorder recorder;
    Pool pool(how.ghost);
    if (how.poisoned) poison(pool);
    Tape tape(threads, pool, {.recorder = &recorder});
    const auto wanted = [&](std::size_t i) { return how.only < 0 || how.only == static_cast<int>(i); };

    Parameters parameters;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters.add(std::to_string(i), parameters_[i], wanted(inputs_.size() + i));
    }
    parameters.allocate(how.ghost ? Parameters::With::kGhostGradients : Parameters::With::kGradients);
    if (!how.ghost) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        std::copy(values_[inputs_.size() + i].begin(), values_[inputs_.size() + i].end(), parameters.all()[i].value);
      }
      std::fill(parameters.gradients().begin(), parameters.gradients().end(), kNan);  // the first use overwrites
    }
    Tensors x;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      x.push_back(wanted(i) ? tape.differentiable(inputs_[i], values_[i]) : tape.copy_in(inputs_[i], values_[i]));
    }

    Result result;
    const auto use = [&] {
      const Tensor y = operate_(tape, x, parameters.all());
      result.shape = y.shape();
      if (!how.ghost) result.y = copy_of(y.span());
      return given_loss(tape, y, 0.0, tape.copy_in(y.shape(), random_values(y.shape(), kStreamOfC)));
    };
    Tensor loss = use();
    if (how.uses == 2) loss = add(tape, loss, use());
    tape.backward(loss);

    for (std::size_t i = 0; i < inputs_.size() && !how.ghost; ++i) {
      result.gradients.push_back(copy_of(tape.gradient(x[i]).span()));
    }
    for (const Parameter& p : parameters.all()) {
      const bool there = !how.ghost && p.trained;
      result.gradients.push_back(there ? std::vector<float>(p.gradient, p.gradient + p.size()) : std::vector<float>());
    }
    result.lines = lines(recorder);
    result.peak = pool.peak_bytes();
    return result;
  }

  Operate operate_;
  std::vector<Shape> inputs_, parameters_;
  std::vector<std::vector<float>> values_;
};

inline void check(Operate operate, std::vector<Shape> inputs, std::vector<Shape> parameters,
                  const Reference& reference) {
  OperationTest(std::move(operate), std::move(inputs), std::move(parameters)).check(reference);
}

// --- a little transformer -----------------------------------------------------------------------------------------
// Blocks of modulated attention and mlp as video models have them, and a loss. The modulation is one tensor that every
// block uses, and a residual goes straight into linear layers: gradients meet in every way there is.
class Model {
 public:
  struct Sizes {
    std::int64_t batch = 2, tokens = 5, heads = 2, head_dim = 8, blocks = 3;
    std::int64_t width() const { return heads * head_dim; }
  };

  explicit Model(const Sizes& sizes, bool ghost = false) : sizes_(sizes) {
    const std::int64_t w = sizes.width();
    const std::vector<std::pair<const char*, Shape>> all = {
        {"table", {6, w}}, {"qkv", {3 * w, w}}, {"qkv_bias", {3 * w}}, {"norm", {sizes.head_dim}},
        {"proj", {w, w}},  {"up", {2 * w, w}},  {"up_bias", {2 * w}},  {"down", {w, 2 * w}}};
    for (std::int64_t i = 0; i < sizes.blocks; ++i) {
      for (const auto& [name, shape] : all) parameters.add(fmt::format("{}.{}", i, name), shape);
    }
    parameters.allocate(ghost ? Parameters::With::kGhostGradients : Parameters::With::kGradients);
    if (ghost) return;
    Random(test_seed(), 5).fill_normal(parameters.trained_values());
    for (float& value : parameters.trained_values()) value *= 0.2f;
  }

  // x [batch, tokens, width] and m [batch, 6, width], random.
  Tensor input(Tape& tape) const { return random(tape, {sizes_.batch, sizes_.tokens, sizes_.width()}, 1); }
  Tensor modulation(Tape& tape) const { return random(tape, {sizes_.batch, 6, sizes_.width()}, 2); }

  Tensor block(Tape& tape, std::int64_t i, const Tensor& x, const Tensor& m) {
    const auto p = [&](const char* name) -> Parameter& { return *parameters.find(fmt::format("{}.{}", i, name)); };
    const std::int64_t w = sizes_.width();
    const Tensor vectors = add_table(tape, m, p("table"));
    const Tensor qkv = linear(tape, norm_modulate(tape, x, vectors, 0, 1, 1e-6f), p("qkv"), &p("qkv_bias"));
    const auto part = [&](int which) {
      return slice(tape, qkv, 2, which * w, w).reshaped({sizes_.batch, sizes_.tokens, sizes_.heads, sizes_.head_dim});
    };
    const auto angles = kernels::rope_1d(sizes_.tokens, sizes_.head_dim, 100.0);
    const Tensor q = rope(tape, rms_norm(tape, part(0), &p("norm"), 1e-6f), angles);
    const Tensor k = rope(tape, rms_norm(tape, part(1), &p("norm"), 1e-6f), angles);
    const Tensor attended = attention(tape, q, k, part(2)).reshaped(x.shape());
    const Tensor y = gated_residual(tape, x, linear(tape, attended, p("proj"), nullptr), vectors, 2);
    const Tensor up = linear(tape, y, p("up"), &p("up_bias"), Activation::kGeluTanh);
    return add(tape, y, linear(tape, up, p("down"), nullptr));
  }

  Tensor loss(Tape& tape, Tensor x, const Tensor& m, bool recompute) {
    for (std::int64_t i = 0; i < sizes_.blocks; ++i) {
      tape.set_layer(static_cast<int>(i));
      const auto work = [this, &tape, i, x, m] { return block(tape, i, x, m); };
      x = recompute ? tape.recompute(work) : work();
    }
    tape.set_layer(-1);
    return mean_squared_error(tape, x, tape.zeros(x.shape()));
  }

  Parameters parameters;

 private:
  static Tensor random(Tape& tape, const Shape& shape, std::uint64_t stream) {
    return tape.differentiable(shape, random_values(shape, stream));
  }
  Sizes sizes_;
};

}  // namespace reel::tape::testing
