#include "reel/predict/hidden_map.h"

#include <gtest/gtest.h>

#include "reel/kernels/testing.h"

namespace reel::predict {
namespace {

using kernels::testing::doubles;
using kernels::testing::expect_close;
using kernels::testing::expect_same_bits;
using kernels::testing::random_array;

constexpr ModelHeads kShape{1, 3, 8};
constexpr std::int64_t kWidth = 24, kLowRank = 4, kNumbers = 12;
// Two heads that are turned take pairs, the third takes numbers. Tokens in any order, repeats too.
const std::vector<std::int32_t> kInterleaved = {2, 3, 6, 7, 0, 1, 4, 5, 7, 1, 2, 5};
const std::vector<std::int32_t> kHalves = {1, 5, 3, 7, 0, 4, 2, 6, 7, 1, 2, 5};
const std::vector<std::int32_t> kTokens = {9, 0, 4, 4, 17};

struct Model {
  explicit Model(kernels::Pairing pairing) : angles(kernels::rope_1d(10, kShape.head_dim, 20)) {
    angles->pairing = pairing;
    angles->heads = 2;
    std::uint64_t stream = 20;
    for (std::vector<float>* each : {&weight, &bias, &norm}) Random(3, stream++).fill_normal(*each);
  }
  std::vector<float> weight = std::vector<float>(kWidth * kWidth), bias = std::vector<float>(kWidth), norm = bias;
  std::shared_ptr<kernels::RopeAngles> angles;
};

// The formulas of the header, a token at a time.
std::vector<double> reference(const Model& m, bool bias, bool norm, const std::vector<std::int32_t>& picked,
                              const std::vector<double>& x, const std::vector<double>& learnt) {
  std::vector<double> y;
  for (std::size_t t = 0; t < kTokens.size(); ++t) {
    std::vector<double> u;
    double squares = 0;
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const std::size_t row = i / kLowRank * 8 + static_cast<std::size_t>(picked[i]);
      const double* own = &learnt[i * (kWidth + 2)];
      double sum = own[kWidth] + (bias ? static_cast<double>(m.bias[row]) : 0.0);
      for (std::size_t j = 0; j < kWidth; ++j) {
        sum += (static_cast<double>(m.weight[row * kWidth + j]) + own[j] / std::sqrt(24.0)) * x[t * kWidth + j];
      }
      u.push_back(sum);
      squares += sum * sum;
    }
    for (std::size_t i = 0; i < kNumbers && norm; ++i) {
      const std::size_t row = i / kLowRank * 8 + static_cast<std::size_t>(picked[i]);
      u[i] *= static_cast<double>(m.norm[row]) * learnt[i * (kWidth + 2) + kWidth + 1] /
              std::sqrt(squares / kNumbers + 1e-6);
    }
    for (std::size_t i = 0; i < 2 * kLowRank; i += 2) {
      const bool halves = m.angles->pairing == kernels::Pairing::kHalves;
      const std::size_t pair = static_cast<std::size_t>(halves ? picked[i] : picked[i] / 2);
      const std::size_t at = static_cast<std::size_t>(kTokens[t] % 10) * 4 + pair;
      const double c = m.angles->cos[at], s = m.angles->sin[at], a = u[i], b = u[i + 1];
      u[i] = a * c - b * s, u[i + 1] = b * c + a * s;
    }
    y.insert(y.end(), u.begin(), u.end());
  }
  return y;
}

void check(kernels::Pairing pairing, bool bias, bool norm) {
  const Model m(pairing);
  const auto& picked = pairing == kernels::Pairing::kHalves ? kHalves : kInterleaved;
  const auto x = random_array(kTokens.size() * kWidth, 1), learnt = random_array(kNumbers * (kWidth + 2), 2);
  const auto c = random_array(kTokens.size() * kNumbers, 3);
  std::vector<float> first_y, first_gradient;
  for (const int count : {1, 3}) {
    Threads threads(count);
    const Turns turns = turns_of(m.angles.get(), picked, kShape, kTokens, threads);
    const HiddenMap map(
        {m.weight.data(), bias ? m.bias.data() : nullptr, norm ? std::span(m.norm) : std::span<const float>()}, picked,
        kShape, learnt);
    HiddenMap::Kept kept;
    std::vector<float> y(c.size()), dy(c.begin(), c.end()), gradient(learnt.size(), NAN);
    const kernels::ConstRows rows(x.data(), kTokens.size(), kWidth);
    map.forward(rows, turns, y.data(), kept, threads);
    map.backward(rows, turns, kept, dy.data(), gradient, threads);
    if (count == 1) {
      // f32 sums of two dozen terms of size one.
      expect_close(y, reference(m, bias, norm, picked, doubles(x), doubles(learnt)), 2e-5, 1e-5);
      const auto want = kernels::testing::numeric_gradient(doubles(learnt), [&](const std::vector<double>& values) {
        return kernels::testing::inner_product(reference(m, bias, norm, picked, doubles(x), values), doubles(c));
      });
      expect_close(gradient, want, 2e-5, 1e-5);
      first_y = y, first_gradient = gradient;
    }
    expect_same_bits(y, first_y);
    expect_same_bits(gradient, first_gradient);
  }
}

TEST(HiddenMap, ValuesAndGradientsAreThoseOfTheFormulas) { check(kernels::Pairing::kInterleaved, true, true); }
TEST(HiddenMap, PairsMayLieHalfAHeadApart) { check(kernels::Pairing::kHalves, true, true); }
TEST(HiddenMap, ModelsMayHaveNoBiasAndNoNorm) {
  check(kernels::Pairing::kInterleaved, false, true);
  check(kernels::Pairing::kInterleaved, true, false);
}

}  // namespace
}  // namespace reel::predict
