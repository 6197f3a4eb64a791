#include "reel/kernels/softmax.h"

#include <numeric>

#include "reel/kernels/reference.h"
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
using testing::random_matrix;

TEST(Softmax, MatchesReferenceWithLogSumExp) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t width : kWidths) {
      for (const float deviation : {0.1f, 5.0f, 100.0f}) {
        const Grid x = random_matrix(4, width, 3, width, deviation);
        Grid y(4, width, 1);
        Array lse(4);
        softmax(x, y, lse.data(), threads);
        std::vector<double> want, want_lse(4);
        for (std::size_t i = 0; i < 4; ++i) {
          const std::vector<double> row(x.row(i), x.row(i) + width);
          const auto p = reference::softmax(row, &want_lse[i]);
          want.insert(want.end(), p.begin(), p.end());
        }
        // e^x turns the rounding of x - max (3e-5 at 300) into a relative error; where that is large the result is
        // tiny, so that the absolute error stays small.
        expect_close(y, want, 4e-7, 1e-6);
        expect_close(lse, want_lse, 1e-6, 2e-7);
      }
    }
  });
}

TEST(Softmax, RowsSumToOne) {
  Threads threads(1);
  for_every_target([&] {
    const Grid x = random_matrix(7, 1152, 0, 1, 4.0f);
    Grid y(7, 1152);
    softmax(x, y, nullptr, threads);
    for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(std::accumulate(y.row(i), y.row(i) + 1152, 0.0), 1.0, 5e-7);
  });
}

TEST(Softmax, RowOfMinusInfinityGivesZerosAndOthersSkipIt) {
  Threads threads(1);
  for_every_target([&] {
    Grid x(2, 11), y(2, 11);
    std::fill(x.array().begin(), x.array().end(), -kInfinity);
    x.row(1)[3] = 2.0f;
    Array lse(2);
    softmax(x, y, lse.data(), threads);
    EXPECT_EQ(lse[0], -kInfinity);
    EXPECT_EQ(lse[1], 2.0f);
    for (std::size_t j = 0; j < 11; ++j) {
      EXPECT_EQ(y.row(0)[j], 0.0f);
      EXPECT_EQ(y.row(1)[j], j == 3 ? 1.0f : 0.0f);
    }
  });
}

TEST(Softmax, NanMakesItsRowNanAlsoAmongMinusInfinities) {
  Threads threads(1);
  for_every_target([&] {
    for (const std::size_t where : {0, 5, 18}) {
      for (const float rest : {1.0f, -kInfinity}) {
        Grid x(2, 19), y(2, 19);
        std::fill(x.array().begin(), x.array().end(), rest);
        x.row(0)[where] = kNan;
        x.row(1)[where] = 1.0f;
        Array lse(2);
        softmax(x, y, lse.data(), threads);
        EXPECT_TRUE(std::isnan(lse[0]));
        for (std::size_t j = 0; j < 19; ++j) {
          EXPECT_TRUE(std::isnan(y.row(0)[j])) << j;
          EXPECT_FALSE(std::isnan(y.row(1)[j])) << j;
        }
      }
    }
  });
}

TEST(Softmax, InPlaceAndThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    const Grid x = random_matrix(300, 131, 0, 1);
    Grid y(300, 131), in_place(x);
    Array lse(300), lse3(300);
    softmax(x, y, lse.data(), one);
    softmax(in_place, in_place, lse3.data(), three);
    testing::expect_same_bits(y.array(), in_place.array());
    testing::expect_same_bits(lse, lse3);
  });
}

}  // namespace
}  // namespace reel::kernels
