#include "reel/kernels/elementwise.h"

#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::doubles;
using testing::expect_close;
using testing::for_every_target;
using testing::Grid;
using testing::kInfinity;
using testing::kNan;
using testing::kWidths;
using testing::random_array;
using testing::random_matrix;

TEST(Elementwise, SumsAndProductsAreThoseOfFloats) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t n : kWidths) {
      const Array x = random_array(n, 1), y = random_array(n, 2);
      Array sum(n), scaled(n), axpyed(y);
      add(x, y, sum, threads);
      scale(0.3f, x, scaled, threads);
      axpy(0.3f, x, axpyed, threads);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(sum[i], x[i] + y[i]);
        ASSERT_EQ(scaled[i], 0.3f * x[i]);
        ASSERT_NEAR(axpyed[i], double(0.3f) * x[i] + y[i], 4e-7);  // with or without FMA
      }
    }
  });
}

TEST(Elementwise, RowsAreCopiedBetweenStrides) {
  Threads threads(2);
  for (const std::size_t width : kWidths) {
    const Grid x = random_matrix(37, width, 2, 1);
    Grid y(37, width, 5);
    copy_rows(x, y, threads);
    expect_close(y, x.values(), 0.0, 0.0);
  }
}

TEST(Elementwise, ColumnSumsMatchDoubleSumsAndAddWhenAsked) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t rows : {1, 3, 64, 65, 300}) {
      for (const std::size_t width : kWidths) {
        const Grid x = random_matrix(rows, width, 1, rows);
        std::vector<double> want(width, 0.0);
        for (std::size_t i = 0; i < rows; ++i) {
          for (std::size_t j = 0; j < width; ++j) want[j] += x.row(i)[j];
        }
        Array out(width);
        column_sums(x, out.data(), Write::kOverwrite, threads);
        expect_close(out, want, 3e-5, 0.0);  // up to 300 roundings of sums below 60
        for (std::size_t j = 0; j < width; ++j) want[j] += 1.0;
        std::fill(out.begin(), out.end(), 1.0f);
        column_sums(x, out.data(), Write::kAdd, threads);
        expect_close(out, want, 3e-5, 0.0);
      }
    }
    Array out(3);
    column_sums(Grid(0, 3), out.data(), Write::kOverwrite, threads);
    EXPECT_EQ(out[2], 0.0f);
  });
}

TEST(Elementwise, LongSumsStayAccurate) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t n : {std::size_t(0), std::size_t(1), std::size_t(17), std::size_t(1000003)}) {
      const Array x = random_array(n, 1, 1.0f, 3.0f), y = random_array(n, 2, 1.0f, 3.0f);
      double product = 0.0, squares = 0.0, distance = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        product += double(x[i]) * y[i];
        squares += double(x[i]) * x[i];
        distance += (double(x[i]) - y[i]) * (double(x[i]) - y[i]);
      }
      // f32 goes no further than 1024 numbers: one plain f32 sum of a million would be off by 1e-4 or more.
      EXPECT_NEAR(dot(x, y, threads), product, 3e-7 * product);
      EXPECT_NEAR(sum_squares(x, threads), squares, 3e-7 * squares);
      const double mean = n == 0 ? 0.0 : distance / static_cast<double>(n);
      EXPECT_NEAR(mean_squared_error(x, y, threads), mean, 3e-7 * mean);
    }
  });
}

TEST(Elementwise, MeanSquaredErrorGradientMatchesDifferences) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t n : kWidths) {
      const Array x = random_array(n, 1), target = random_array(n, 2);
      Array dx(n);
      mean_squared_error_backward(x, target, 1.5f, dx, threads);
      const auto want = testing::numeric_gradient(doubles(x), [&](std::span<const double> v) {
        double loss = 0.0;
        for (std::size_t i = 0; i < n; ++i) loss += (v[i] - target[i]) * (v[i] - target[i]);
        return 1.5 * loss / static_cast<double>(n);
      });
      expect_close(dx, want, 1e-8, 1e-6);  // two roundings; the differences add about 1e-9
    }
  });
}

TEST(Elementwise, ThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    const std::size_t n = 100003;
    const Array x = random_array(n, 1), y = random_array(n, 2);
    EXPECT_EQ(dot(x, y, one), dot(x, y, three));
    EXPECT_EQ(mean_squared_error(x, y, one), mean_squared_error(x, y, three));
    Array a(y), b(y);
    axpy(0.7f, x, a, one);
    axpy(0.7f, x, b, three);
    testing::expect_same_bits(a, b);
    const Grid m = random_matrix(999, 67, 0, 3);
    Array c(67), d(67);
    column_sums(m, c.data(), Write::kOverwrite, one);
    column_sums(m, d.data(), Write::kOverwrite, three);
    testing::expect_same_bits(c, d);
  });
}

TEST(Elementwise, NotFiniteIsFoundAnywhere) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t n : {std::size_t(1), std::size_t(19), std::size_t(40000)}) {
      Array x = random_array(n, 1);
      x[n / 2] = 3e38f;
      EXPECT_FALSE(any_not_finite(x, threads));
      for (const float bad : {kNan, kInfinity, -kInfinity}) {
        for (const std::size_t where : {std::size_t(0), n / 2, n - 1}) {
          const float before = x[where];
          x[where] = bad;
          EXPECT_TRUE(any_not_finite(x, threads));
          EXPECT_FALSE(std::isfinite(dot(x, x, threads)));
          x[where] = before;
        }
      }
    }
    EXPECT_FALSE(any_not_finite({}, threads));
  });
}

}  // namespace
}  // namespace reel::kernels
