#include <bit>

#include "reel/kernels/math_testing.h"
#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::for_every_target;
using testing::kInfinity;
using testing::kNan;

using ArrayFunction = void (*)(std::span<const float>, std::span<float>);
using Exact = double (*)(double);

// math-inl.h states what was measured; rounding differs a little between instruction sets.
constexpr double kPromise = 2e-7;

struct Error {
  double relative = 0.0;
  float where = 0.0f;  // of the largest relative error
};

// Largest errors over 2^24 floats, every 257th bit pattern (an odd stride: all low bits occur). Relative where the true
// value is a normal float. NaN and infinity must be where the reference rounds to them.
std::vector<Error> measure(ArrayFunction function, Exact reference) {
  constexpr std::uint32_t kBlock = 1 << 12;
  const std::string before = target();
  const std::vector<std::string> targets = available_targets();
  std::vector<Error> errors(targets.size());
  std::vector<float> x(kBlock), y(kBlock);
  std::vector<double> want(kBlock);
  for (std::uint32_t block = 0; block < (1u << 24) / kBlock; ++block) {
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      x[i] = std::bit_cast<float>((block * kBlock + i) * 257u);
      want[i] = reference(x[i]);
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
      set_target(targets[t]);
      function(x, y);
      for (std::uint32_t i = 0; i < kBlock; ++i) {
        if (std::isnan(want[i])) {
          if (!std::isnan(y[i])) ADD_FAILURE() << targets[t] << ": f(" << x[i] << ") = " << y[i] << ", not NaN";
          continue;
        }
        if (std::isinf(static_cast<float>(want[i]))) {
          if (y[i] != static_cast<float>(want[i])) {
            ADD_FAILURE() << targets[t] << ": f(" << x[i] << ") = " << y[i] << " instead of " << want[i];
          }
          continue;
        }
        const double difference = std::abs(y[i] - want[i]);
        Error& error = errors[t];
        if (std::abs(want[i]) < std::numeric_limits<float>::min()) {
          if (!(difference <= 3e-45)) ADD_FAILURE() << targets[t] << ": f(" << x[i] << ") = " << y[i];
        } else if (!(difference <= error.relative * std::abs(want[i]))) {
          error.relative = difference / std::abs(want[i]);
          error.where = x[i];
        }
      }
    }
  }
  set_target(before);
  return errors;
}

TEST(Math, ExpHasTheStatedErrorFromUnderflowToOverflow) {
  for (const Error& error : measure(exp, [](double x) { return std::exp(x); }))
    EXPECT_LE(error.relative, kPromise) << error.where;
}

TEST(Math, LogHasTheStatedErrorForEveryPositiveFloat) {
  for (const Error& error : measure(log, [](double x) { return std::log(x); }))
    EXPECT_LE(error.relative, kPromise) << error.where;
}

TEST(Math, TanhHasTheStatedError) {
  for (const Error& error : measure(tanh, [](double x) { return std::tanh(x); }))
    EXPECT_LE(error.relative, kPromise) << error.where;
}

TEST(Math, ErfHasTheStatedError) {
  for (const Error& error : measure(erf, [](double x) { return std::erf(x); }))
    EXPECT_LE(error.relative, kPromise) << error.where;
}

// Below -88.7 e^-x overflows and the result is 0, not the tiny number it should be: an absolute promise.
TEST(Math, SigmoidHasTheStatedErrorAndFlushesToZero) {
  const Exact reference = [](double x) { return x < -88.0 ? 0.0 : 1.0 / (1.0 + std::exp(-x)); };
  const ArrayFunction function = [](std::span<const float> x, std::span<float> y) {
    sigmoid(x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] < -88.0f && y[i] >= 0.0f && y[i] < 1e-37f) y[i] = 0.0f;
    }
  };
  for (const Error& error : measure(function, reference)) EXPECT_LE(error.relative, kPromise) << error.where;
}

TEST(Math, SpecialValuesAreThoseOfLibm) {
  for_every_target([] {
    const Array x = {0.0f, -0.0f, 1.0f, -1.0f, kInfinity, -kInfinity, kNan, 1e-45f, 3e38f, -3e38f};
    Array y(x.size());
    const auto check = [&](ArrayFunction function, float (*reference)(float)) {
      function(x, y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float want = reference(x[i]);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(y[i])) << x[i];
        } else {
          EXPECT_FLOAT_EQ(y[i], want) << x[i];
        }
      }
    };
    check(exp, [](float v) { return std::exp(v); });
    check(log, [](float v) { return std::log(v); });
    check(tanh, [](float v) { return std::tanh(v); });
    check(erf, [](float v) { return std::erf(v); });
    check(sigmoid, [](float v) { return 1.0f / (1.0f + std::exp(-v)); });
  });
}

TEST(Math, ExpAndLogOfOneAndZeroAreExact) {
  for_every_target([] {
    const Array zeros = {0.0f, -0.0f};
    const Array ones = {1.0f, 1.0f, 1.0f};
    Array y(2), z(3);
    exp(zeros, y);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    log(ones, z);
    EXPECT_EQ(z[2], 0.0f);
  });
}

TEST(Math, TailsHaveTheBitsOfWholeVectors) {
  for_every_target([] {
    const Array x = testing::random_array(64, 1);
    Array all(64);
    exp(x, all);
    for (std::size_t n = 0; n < 40; ++n) {
      const Array part(testing::random_array(n, 1));
      Array y(n);
      exp(part, y);
      testing::expect_same_bits(y, std::span<const float>(all.data(), n));
    }
  });
}

}  // namespace
}  // namespace reel::kernels
