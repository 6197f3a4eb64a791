#include "reel/kernels/norm.h"

#include "reel/kernels/reference.h"
#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::doubles;
using testing::expect_close;
using testing::for_every_target;
using testing::Grid;
using testing::inner_product;
using testing::kNan;
using testing::kWidths;
using testing::numeric_gradient;
using testing::random_array;
using testing::random_matrix;

constexpr float kEps = 1e-5f;

enum class Kind { kLayer, kRms };

std::vector<double> reference_row(Kind kind, std::span<const double> x, std::span<const double> weight,
                                  std::span<const double> bias) {
  return kind == Kind::kLayer ? reference::layer_norm(x, weight, bias, kEps) : reference::rms_norm(x, weight, kEps);
}

struct Forward {
  Grid y;
  Array mean, rstd;
};
Forward forward(Kind kind, const Grid& x, const float* weight, const float* bias, Threads& threads) {
  Forward f{Grid(x.rows(), x.width(), 2), Array(x.rows()), Array(x.rows())};
  if (kind == Kind::kLayer) {
    layer_norm(x, weight, bias, kEps, f.y, f.mean.data(), f.rstd.data(), threads);
  } else {
    rms_norm(x, weight, kEps, f.y, f.rstd.data(), threads);
  }
  return f;
}
void backward(Kind kind, const Grid& x, const float* weight, const Forward& f, const Grid& dy, Grid& dx, float* dweight,
              float* dbias, Threads& threads) {
  if (kind == Kind::kLayer) {
    layer_norm_backward(x, weight, f.mean.data(), f.rstd.data(), dy, dx, dweight, dbias, threads);
  } else {
    rms_norm_backward(x, weight, f.rstd.data(), dy, dx, dweight, threads);
  }
}

TEST(Norm, ForwardMatchesReferenceWithAndWithoutAffine) {
  Threads threads(2);
  for_every_target([&] {
    for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
      for (const std::size_t width : kWidths) {
        for (const bool affine : {false, true}) {
          const Grid x = random_matrix(5, width, 3, width, 2.0f, 0.5f);
          const Array weight = random_array(affine ? width : 0, 1), bias = random_array(affine ? width : 0, 2);
          const Forward f = forward(kind, x, affine ? weight.data() : nullptr, affine ? bias.data() : nullptr, threads);
          std::vector<double> want;
          for (std::size_t i = 0; i < x.rows(); ++i) {
            const std::vector<double> row(x.row(i), x.row(i) + width);
            const auto y = reference_row(kind, row, doubles(weight), doubles(bias));
            want.insert(want.end(), y.begin(), y.end());
          }
          // Results of size 1 from sums in f32. A layer norm of two close numbers divides their rounding errors by the
          // small difference: hence not tighter.
          expect_close(f.y, want, 4e-6, 2e-6);
        }
      }
    }
  });
}

TEST(Norm, LargeMeanCostsNoAccuracyBeyondThatOfTheInput) {
  Threads threads(1);
  for_every_target([&] {
    const Grid x = random_matrix(3, 1152, 0, 1, 1.0f, 1000.0f);
    const Forward f = forward(Kind::kLayer, x, nullptr, nullptr, threads);
    for (std::size_t i = 0; i < x.rows(); ++i) {
      const std::vector<double> row(x.row(i), x.row(i) + x.width());
      const auto want = reference::layer_norm(row, {}, {}, kEps);
      // The mean is a float near 1000: half its spacing is 3e-5. One pass, E x^2 - mean^2, would be off by 0.1.
      expect_close(std::span<const float>(f.y.row(i), x.width()), want, 4e-5, 1e-5);
    }
  });
}

TEST(Norm, BackwardMatchesDifferencesOfTheReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
      for (const std::size_t width : kWidths) {
        for (const bool affine : {false, true}) {
          const std::size_t rows = width > 200 ? 1 : 3;
          const Grid x = random_matrix(rows, width, 1, width, 2.0f, 0.5f), dy = random_matrix(rows, width, 4, 77);
          const Array weight = random_array(affine ? width : 0, 1), bias = random_array(affine ? width : 0, 2);
          const float* w = affine ? weight.data() : nullptr;
          const Forward f = forward(kind, x, w, nullptr, threads);
          Grid dx(rows, width, 2);
          backward(kind, x, w, f, dy, dx, nullptr, nullptr, threads);
          std::vector<double> want;
          for (std::size_t i = 0; i < rows; ++i) {
            const std::vector<double> row(x.row(i), x.row(i) + width), out(dy.row(i), dy.row(i) + width);
            const auto gradient = numeric_gradient(row, [&](std::span<const double> v) {
              return inner_product(reference_row(kind, v, doubles(weight), {}), out);
            });
            want.insert(want.end(), gradient.begin(), gradient.end());
          }
          // The gradient is a difference of terms of size rstd: two or three close numbers in a row (rstd up to 50
          // here, 316 for width 1) magnify rounding.
          double size = 1.0;
          for (const float rstd : f.rstd) size = std::max<double>(size, rstd);
          expect_close(dx, want, 3e-6 * size * size, 1e-5);
        }
      }
    }
  });
}

// dweight and dbias are added to what is there; 150 rows are several chunks.
TEST(Norm, ParameterGradientsAreAddedAndMatchDifferences) {
  Threads threads(2);
  for_every_target([&] {
    for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
      for (const std::size_t width : {1, 9, 72, 300}) {
        const std::size_t rows = 150;
        const Grid x = random_matrix(rows, width, 1, 3), dy = random_matrix(rows, width, 0, 4);
        const Array weight = random_array(width, 1);
        const Forward f = forward(kind, x, weight.data(), nullptr, threads);
        Grid dx(rows, width);
        Array dweight(width), dbias(width);
        std::fill(dweight.begin(), dweight.end(), 1.0f);
        std::fill(dbias.begin(), dbias.end(), -1.0f);
        backward(kind, x, weight.data(), f, dy, dx, dweight.data(), kind == Kind::kLayer ? dbias.data() : nullptr,
                 threads);
        // Both are linear in y: the gradient of weight j is the sum of dy * y at weight 1.
        std::vector<double> want(width, 1.0), want_bias(width, -1.0);
        for (std::size_t i = 0; i < rows; ++i) {
          const std::vector<double> row(x.row(i), x.row(i) + width);
          const auto h = reference_row(kind, row, {}, {});
          for (std::size_t j = 0; j < width; ++j) {
            want[j] += dy.row(i)[j] * h[j];
            if (kind == Kind::kLayer) want_bias[j] += dy.row(i)[j];
          }
        }
        expect_close(dweight, want, 3e-5, 1e-6);  // sums of 150 numbers of size 1
        expect_close(dbias, want_bias, 3e-5, 1e-6);
        Grid plain(rows, width);
        backward(kind, x, weight.data(), f, dy, plain, nullptr, nullptr, threads);
        testing::expect_same_bits(plain.array(), dx.array());  // asking for more changes nothing
      }
    }
  });
}

TEST(Norm, InPlaceAndThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
      const std::size_t rows = 300, width = 129;
      const Grid x = random_matrix(rows, width, 0, 5), dy = random_matrix(rows, width, 0, 6);
      const Array weight = random_array(width, 1), bias = random_array(width, 2);
      const Forward a = forward(kind, x, weight.data(), bias.data(), one);
      const Forward b = forward(kind, x, weight.data(), bias.data(), three);
      testing::expect_same_bits(a.y.array(), b.y.array());
      testing::expect_same_bits(a.rstd, b.rstd);
      testing::expect_same_bits(a.mean, b.mean);
      Grid dx(rows, width), in_place(dy);
      Array dw1(random_array(width, 9)), dw3(dw1), db1(dw1), db3(dw1);
      const bool layer = kind == Kind::kLayer;
      backward(kind, x, weight.data(), a, dy, dx, dw1.data(), layer ? db1.data() : nullptr, one);
      backward(kind, x, weight.data(), a, in_place, in_place, dw3.data(), layer ? db3.data() : nullptr, three);
      testing::expect_same_bits(dx.array(), in_place.array());
      testing::expect_same_bits(dw1, dw3);
      testing::expect_same_bits(db1, db3);
    }
  });
}

TEST(Norm, NanMakesItsRowNanAndNoOther) {
  Threads threads(1);
  for_every_target([&] {
    for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
      Grid x = random_matrix(3, 17, 0, 1);
      x.row(1)[16] = kNan;
      const Forward f = forward(kind, x, nullptr, nullptr, threads);
      for (std::size_t j = 0; j < 17; ++j) {
        EXPECT_FALSE(std::isnan(f.y.row(0)[j]));
        EXPECT_TRUE(std::isnan(f.y.row(1)[j]));
        EXPECT_FALSE(std::isnan(f.y.row(2)[j]));
      }
    }
  });
}

TEST(Norm, ConstantRowGivesTheBias) {
  Threads threads(1);
  for_every_target([&] {
    Grid x(1, 24), y(1, 24);
    std::fill(x.row(0), x.row(0) + 24, 3.0f);
    const Array bias = random_array(24, 1);
    layer_norm(x, nullptr, bias.data(), kEps, y, nullptr, nullptr, threads);
    testing::expect_close(y, doubles(bias), 1e-4, 0.0);  // mean 3 may be off by its last bit, times 316
  });
}

TEST(Norm, NoRowsIsNoWork) {
  Threads threads(2);
  Grid x(0, 8), y(0, 8);
  Array dweight = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
  Array empty(0);
  layer_norm(x, nullptr, nullptr, kEps, y, nullptr, nullptr, threads);
  rms_norm_backward(x, nullptr, empty.data(), x, y, dweight.data(), threads);
  EXPECT_EQ(dweight[7], 1.0f);
}

}  // namespace
}  // namespace reel::kernels
