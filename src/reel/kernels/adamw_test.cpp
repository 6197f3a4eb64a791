#include "reel/kernels/adamw.h"

#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::doubles;
using testing::expect_close;
using testing::for_every_target;
using testing::kWidths;
using testing::random_array;

// The formulas of the header, in double.
void reference_step(const AdamW& a, std::vector<double>& p, const std::vector<double>& g, std::vector<double>& m,
                    std::vector<double>& v) {
  const double step = static_cast<double>(a.step);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double grad = a.grad_scale * g[i];
    m[i] = a.beta1 * m[i] + (1.0 - a.beta1) * grad;
    v[i] = a.beta2 * v[i] + (1.0 - a.beta2) * grad * grad;
    const double mean = m[i] / (1.0 - std::pow(a.beta1, step)), square = v[i] / (1.0 - std::pow(a.beta2, step));
    p[i] -= a.lr * a.weight_decay * p[i] + a.lr * mean / (std::sqrt(square) + a.eps);
  }
}

TEST(AdamW, TenStepsMatchReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t n : kWidths) {
      Array p = random_array(n, 1), m(n), v(n);
      std::fill(m.begin(), m.end(), 0.0f);
      std::fill(v.begin(), v.end(), 0.0f);
      std::vector<double> want_p = doubles(p), want_m(n, 0.0), want_v(n, 0.0);
      AdamW adamw = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .grad_scale = 0.25};
      for (adamw.step = 1; adamw.step <= 10; ++adamw.step) {
        const Array g = random_array(n, 10 + static_cast<std::uint64_t>(adamw.step));
        adamw_step(adamw, p, g, m, v, threads);
        reference_step(adamw, want_p, doubles(g), want_m, want_v);
      }
      // A rounding of p (below 5) each step, and ten in m and v.
      expect_close(p, want_p, 2e-6, 0.0);
      expect_close(m, want_m, 3e-7, 0.0);
      expect_close(v, want_v, 1e-8, 1e-6);
    }
  });
}

// The first step is lr times the sign of the gradient, whatever its size: what bias correction is for.
TEST(AdamW, FirstStepHasTheSizeOfTheLearningRate) {
  Threads threads(1);
  for_every_target([&] {
    const Array g = {1e-3f, -5.0f, 100.0f};
    Array p = {1.0f, 1.0f, 1.0f}, m = {0.0f, 0.0f, 0.0f}, v = {0.0f, 0.0f, 0.0f};
    adamw_step({.lr = 0.125}, p, g, m, v, threads);
    expect_close(p, std::vector<double>{0.875, 1.125, 0.875}, 2e-6, 0.0);  // eps is 1e-5 of the smallest gradient
  });
}

TEST(AdamW, ZeroGradientOnlyDecays) {
  Threads threads(1);
  for_every_target([&] {
    const Array g = {0.0f};
    Array p = {2.0f}, m = {0.0f}, v = {0.0f};
    adamw_step({.lr = 0.5, .weight_decay = 0.5}, p, g, m, v, threads);
    EXPECT_EQ(p[0], 1.5f);
  });
}

TEST(AdamW, ShardsAndThreeThreadsGiveTheBitsOfTheWhole) {
  Threads one(1), three(3);
  for_every_target([&] {
    const std::size_t n = 70001, cut = 12345;
    const Array g = random_array(n, 1);
    Array p = random_array(n, 2), m = random_array(n, 3), v(random_array(n, 3));
    for (float& value : v) value *= value;
    Array p3(p), m3(m), v3(v), ps(p), ms(m), vs(v);
    const AdamW adamw = {.lr = 0.01, .weight_decay = 0.1, .step = 7};
    adamw_step(adamw, p, g, m, v, one);
    adamw_step(adamw, p3, g, m3, v3, three);
    const auto part = [&](auto& array, std::size_t first, std::size_t end) {
      return std::span(array.data() + first, end - first);
    };
    for (const auto& [first, end] : {std::pair(std::size_t(0), cut), std::pair(cut, n)}) {
      adamw_step(adamw, part(ps, first, end), part(g, first, end), part(ms, first, end), part(vs, first, end), three);
    }
    testing::expect_same_bits(p, p3);
    testing::expect_same_bits(m, m3);
    testing::expect_same_bits(v, v3);
    testing::expect_same_bits(p, ps);
    testing::expect_same_bits(v, vs);
  });
}

TEST(AdamW, NanInAGradientReachesItsParameterAndNoOther) {
  Threads threads(1);
  for_every_target([&] {
    const Array g = {1.0f, testing::kNan, 1.0f};
    Array p = {1.0f, 1.0f, 1.0f}, m = {0.0f, 0.0f, 0.0f}, v = {0.0f, 0.0f, 0.0f};
    adamw_step({}, p, g, m, v, threads);
    EXPECT_TRUE(!std::isnan(p[0]) && std::isnan(p[1]) && !std::isnan(p[2]));
    EXPECT_TRUE(std::isnan(m[1]) && std::isnan(v[1]));
  });
}

TEST(Ema, MatchesReferenceAndStaysWhereItHasArrived) {
  Threads one(1), three(3);
  for_every_target([&] {
    for (const std::size_t n : kWidths) {
      const Array p = random_array(n, 1);
      Array average = random_array(n, 2), arrived(p);
      std::vector<double> want(n);
      for (std::size_t i = 0; i < n; ++i) want[i] = 0.9 * average[i] + 0.1 * p[i];
      ema_step(0.9, p, average, three);
      expect_close(average, want, 1e-6, 0.0);  // three roundings of numbers below 5
      ema_step(0.9999, p, arrived, one);
      testing::expect_same_bits(arrived, p);
    }
  });
}

}  // namespace
}  // namespace reel::kernels
