#include "reel/predict/closed_form.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/base/random.h"

namespace reel::predict {
namespace {

// Rows whose numbers live in `rank` directions, plus a little noise everywhere and a mean.
std::vector<float> rows(std::int64_t count, std::int64_t dim, std::int64_t rank, float noise, float mean,
                        std::uint64_t seed) {
  std::vector<float> basis(static_cast<std::size_t>(rank * dim)), out(static_cast<std::size_t>(count * dim));
  Random(5).fill_normal(basis);
  const Random random(seed);
  std::uint64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t r = 0; r < rank; ++r) {
      const float weight = random.normal(at++);
      for (std::int64_t j = 0; j < dim; ++j) out[i * dim + j] += weight * basis[r * dim + j];
    }
    for (std::int64_t j = 0; j < dim; ++j) out[i * dim + j] += noise * random.normal(at++) + mean;
  }
  return out;
}

Moments moments(const std::vector<float>& x, std::int64_t dim) {
  Moments m;
  m.dim = dim;
  m.product.resize(static_cast<std::size_t>(dim * dim));
  m.mean.resize(static_cast<std::size_t>(dim));
  const std::int64_t count = static_cast<std::int64_t>(x.size()) / dim;
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t i = 0; i < dim; ++i) {
      m.mean[i] += static_cast<double>(x[n * dim + i]) / static_cast<double>(count);
      for (std::int64_t j = 0; j < dim; ++j) {
        m.product[i * dim + j] += static_cast<double>(x[n * dim + i]) * x[n * dim + j] / static_cast<double>(count);
      }
    }
  }
  return m;
}

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Mean squared error of predicted scores, each row of scores about its mean, over the variance of the true ones.
double error(const std::vector<float>& q, const std::vector<float>& k, std::int64_t dim, const LowRank& low) {
  const std::int64_t queries = static_cast<std::int64_t>(q.size()) / dim,
                     keys = static_cast<std::int64_t>(k.size()) / dim;
  const auto project = [&](const float* row, const std::vector<float>& p) {
    std::vector<float> out(static_cast<std::size_t>(low.rank));
    for (std::int64_t r = 0; r < low.rank; ++r) {
      for (std::int64_t i = 0; i < dim; ++i) out[r] += row[i] * p[i * low.rank + r];
    }
    return out;
  };
  double wrong = 0, all = 0;
  std::vector<std::vector<float>> low_k;
  for (std::int64_t j = 0; j < keys; ++j) low_k.push_back(project(&k[j * dim], low.k));
  for (std::int64_t i = 0; i < queries; ++i) {
    const auto pq = project(&q[i * dim], low.q);
    std::vector<double> truth, guess;
    double truth_mean = 0, guess_mean = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      truth.push_back(dot(&q[i * dim], &k[j * dim], dim));
      guess.push_back(dot(pq.data(), low_k[static_cast<std::size_t>(j)].data(), low.rank));
      truth_mean += truth.back() / static_cast<double>(keys);
      guess_mean += guess.back() / static_cast<double>(keys);
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      wrong += std::pow((truth[j] - truth_mean) - (guess[j] - guess_mean), 2);
      all += std::pow(truth[j] - truth_mean, 2);
    }
  }
  return wrong / all;
}

TEST(ClosedForm, FullRankGivesTheScoresThemselves) {
  const std::int64_t dim = 12;
  const auto q = rows(200, dim, dim, 0.1f, 0.3f, 1), k = rows(150, dim, dim, 0.1f, -0.4f, 2);
  EXPECT_LT(error(q, k, dim, closed_form(moments(q, dim), moments(k, dim), dim)), 1e-6);
}

TEST(ClosedForm, FindsTheDirectionsThatMatter) {
  const std::int64_t dim = 32;
  const auto q = rows(400, dim, 6, 0.05f, 1.0f, 1), k = rows(300, dim, 6, 0.05f, 1.0f, 2);
  const LowRank low = closed_form(moments(q, dim), moments(k, dim), 8);
  EXPECT_LT(error(q, k, dim, low), 0.01);
  EXPECT_EQ(rank_for(low.spectrum, 0.98, 32), 8);  // in steps of 8
  // The error of the best rank-r form is what the spectrum leaves out.
  const LowRank three = closed_form(moments(q, dim), moments(k, dim), 3);
  double all = 0, left = 0;
  for (std::size_t i = 0; i < three.spectrum.size(); ++i) {
    all += three.spectrum[i] * three.spectrum[i];
    if (i >= 3) left += three.spectrum[i] * three.spectrum[i];
  }
  EXPECT_NEAR(error(q, k, dim, three), left / all, 0.02);
}

// A flat picture: rows in fewer directions than there are numbers, moments with the rounding of f32.
TEST(ClosedForm, RowsOfFewDirectionsGiveFiniteProjections) {
  for (const std::int64_t rank : {1, 3, 12}) {
    const std::int64_t dim = 64;
    const auto q = rows(200, dim, rank, 0, 0, 1), k = rows(200, dim, rank, 0, 0, 2);
    Moments of_q = moments(q, dim), of_k = moments(k, dim);
    std::uint64_t at = 0;
    for (Moments* each : {&of_q, &of_k}) {
      for (double& value : each->product) value = static_cast<float>(value * (1 + 1e-7 * Random(7).normal(at++)));
      for (double& value : each->mean) value = static_cast<float>(value);
    }
    for (const std::int64_t wanted : {16, 64}) {
      const LowRank low = closed_form(of_q, of_k, wanted);
      for (const float value : low.q) ASSERT_LT(std::abs(value), 1e6f);
      for (const float value : low.k) ASSERT_LT(std::abs(value), 1e6f);
      EXPECT_LT(error(q, k, dim, low), 1e-4);
    }
  }
}

TEST(ClosedForm, BeatsPrincipalDirectionsOfTheKeysAlone) {
  // Keys vary most where queries never look.
  const std::int64_t dim = 16;
  auto q = rows(300, dim, 2, 0.01f, 0, 3), k = rows(300, dim, 2, 0.01f, 0, 4);
  const Random random(9);
  for (std::size_t i = 0; i < k.size() / dim; ++i) k[i * dim] += 50 * random.normal(i);
  for (std::size_t i = 0; i < q.size() / dim; ++i) q[i * dim] = 0;
  EXPECT_LT(error(q, k, dim, closed_form(moments(q, dim), moments(k, dim), 2)), 0.05);
}

TEST(Moments, MixIsAMovingAverage) {
  Moments a, b, c;
  b.dim = c.dim = 1;
  b.product = {2}, b.mean = {1}, c.product = {4}, c.mean = {3};
  a.mix(b, 0.9);
  EXPECT_EQ(a.product[0], 2);
  a.mix(c, 0.75);
  EXPECT_DOUBLE_EQ(a.product[0], 2.5);
  EXPECT_DOUBLE_EQ(a.mean[0], 1.5);
}

}  // namespace
}  // namespace reel::predict
