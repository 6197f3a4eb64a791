#include "reel/kernels/activation.h"

#include "reel/kernels/reference.h"
#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::expect_close;
using testing::for_every_target;
using testing::kNan;
using testing::kWidths;
using testing::random_array;

constexpr Activation kKinds[] = {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu};

// The header promises 4e-7 max(1, |x|): a few roundings of numbers of the size of x.
void expect_promise(std::span<const float> got, std::span<const double> want, std::span<const float> x) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 4e-7 * std::max(1.0f, std::abs(x[i]))) << "x = " << x[i];
  }
}

TEST(Activation, ForwardMatchesReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const Activation kind : kKinds) {
      for (const std::size_t n : kWidths) {
        const Array x = random_array(n, n, 3.0f);
        Array y(n);
        activation(kind, x, y, threads);
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) want[i] = reference::activation(kind, x[i]);
        expect_promise(y, want, x);
      }
    }
  });
}

TEST(Activation, BackwardMatchesTheSlopeOfTheReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const Activation kind : kKinds) {
      for (const std::size_t n : kWidths) {
        const Array x = random_array(n, n + 1, 3.0f), dy = random_array(n, n + 2);
        Array dx(n);
        activation_backward(kind, x, dy, dx, threads);
        for (std::size_t i = 0; i < n; ++i) {
          const double h = 1e-5;
          const double slope =
              (reference::activation(kind, x[i] + h) - reference::activation(kind, x[i] - h)) / (2 * h);
          // A derivative is exact to 4e-7 max(1, |x|), and the differences to 1e-9.
          ASSERT_NEAR(dx[i], dy[i] * slope, 5e-7 * std::max(1.0f, std::abs(x[i])) * std::abs(dy[i])) << x[i];
        }
      }
    }
  });
}

TEST(Activation, WholeRangeIsAccurateAndLargeNumbersGiveXOrZero) {
  Threads threads(1);
  for_every_target([&] {
    Array x(4001), y(4001), dy(4001), dx(4001);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 2000.0f) * 0.01f;
    std::fill(dy.begin(), dy.end(), 1.0f);
    const Array huge = {-3e38f, -1e20f, -200.0f, 200.0f, 1e20f, 3e38f};
    Array huge_y(huge.size()), ones(huge.size()), huge_dx(huge.size());
    std::fill(ones.begin(), ones.end(), 1.0f);
    for (const Activation kind : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
      activation(kind, x, y, threads);
      activation_backward(kind, x, dy, dx, threads);
      std::vector<double> want(x.size()), slope(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double h = 1e-5;
        want[i] = reference::activation(kind, x[i]);
        slope[i] = (reference::activation(kind, x[i] + h) - reference::activation(kind, x[i] - h)) / (2 * h);
      }
      expect_promise(y, want, x);
      expect_promise(dx, slope, x);
      activation(kind, huge, huge_y, threads);
      activation_backward(kind, huge, ones, huge_dx, threads);
      for (std::size_t i = 0; i < huge.size(); ++i) {
        EXPECT_EQ(huge_y[i], huge[i] > 0 ? huge[i] : 0.0f) << huge[i];
        EXPECT_EQ(huge_dx[i], huge[i] > 0 ? 1.0f : 0.0f) << huge[i];
      }
    }
  });
}

TEST(Activation, InPlaceAndThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    const std::size_t n = 50001;  // several chunks
    const Array x = random_array(n, 4), dy = random_array(n, 5);
    for (const Activation kind : kKinds) {
      Array y(n), dx(n), in_place(x), back_in_place(dy);
      activation(kind, x, y, one);
      activation_backward(kind, x, dy, dx, one);
      activation(kind, in_place, in_place, three);
      activation_backward(kind, x, back_in_place, back_in_place, three);
      testing::expect_same_bits(y, in_place);
      testing::expect_same_bits(dx, back_in_place);
    }
  });
}

TEST(Activation, NanInGivesNanOut) {
  Threads threads(1);
  for_every_target([&] {
    const Array x = {kNan, 1.0f}, ones = {1.0f, 1.0f};
    Array y(2), dx(2);
    for (const Activation kind : kKinds) {
      activation(kind, x, y, threads);
      EXPECT_TRUE(std::isnan(y[0]) && !std::isnan(y[1]));
      if (kind == Activation::kNone) continue;
      activation_backward(kind, x, ones, dx, threads);
      EXPECT_TRUE(std::isnan(dx[0]) && !std::isnan(dx[1]));
    }
  });
}

}  // namespace
}  // namespace reel::kernels
