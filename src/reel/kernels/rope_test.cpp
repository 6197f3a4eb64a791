#include "reel/kernels/rope.h"

#include "reel/kernels/reference.h"
#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::doubles;
using testing::expect_close;
using testing::for_every_target;
using testing::Grid;
using testing::random_array;
using testing::random_matrix;

struct RopeShape {
  std::size_t tokens, period, heads, head_dim;
};
constexpr RopeShape kRopeShapes[] = {{1, 1, 1, 2},  {3, 3, 2, 2},   {4, 2, 3, 4},   {5, 5, 1, 6},     {6, 3, 2, 8},
                                     {4, 4, 3, 10}, {2, 2, 2, 14},  {2, 2, 2, 16},  {4, 2, 2, 18},    {4, 2, 1, 34},
                                     {6, 3, 3, 66}, {10, 5, 4, 72}, {3, 3, 2, 128}, {70, 35, 16, 72}, {1, 1, 1, 1152}};

struct Table {
  Table(std::size_t period, std::size_t half) : cos(period * half), sin(period * half) {
    const Array angles = random_array(period * half, 9, 2.0f);
    for (std::size_t i = 0; i < angles.size(); ++i) {
      cos[i] = std::cos(angles[i]);
      sin[i] = std::sin(angles[i]);
    }
  }
  Array cos, sin;
};

std::vector<double> reference_of(const Grid& x, const RopeShape& shape, const Table& table, Pairing pairing,
                                 double sign) {
  std::vector<double> all(shape.tokens * shape.heads * shape.head_dim);
  double* out = all.data();
  const std::size_t half = shape.head_dim / 2;
  for (std::size_t t = 0; t < shape.tokens; ++t) {
    std::vector<double> cos(half), sin(half);
    for (std::size_t i = 0; i < half; ++i) {
      cos[i] = table.cos[t % shape.period * half + i];
      sin[i] = sign * table.sin[t % shape.period * half + i];
    }
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const float* head = x.row(t) + h * shape.head_dim;
      const std::vector<double> values(head, head + shape.head_dim);
      const auto y = reference::rope(values, cos, sin, pairing);
      out = std::copy(y.begin(), y.end(), out);
    }
  }
  return all;
}

TEST(Rope, ForwardAndBackwardMatchReferenceForBothPairings) {
  Threads threads(2);
  for_every_target([&] {
    for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalves}) {
      for (const RopeShape& shape : kRopeShapes) {
        const std::size_t width = shape.heads * shape.head_dim;
        const Grid x = random_matrix(shape.tokens, width, 2 * width, 1);  // a slice of q, k, v
        const Table arrays(shape.period, shape.head_dim / 2);
        const RopeTable table = {arrays.cos.data(), arrays.sin.data(), shape.period};
        Grid y(shape.tokens, width, 1), dx(shape.tokens, width, 3);
        rope(x, shape.heads, table, pairing, y, threads);
        rope_backward(x, shape.heads, table, pairing, dx, threads);
        // Two products and a sum of numbers below 5; the gradient of a rotation is the opposite rotation.
        expect_close(y, reference_of(x, shape, arrays, pairing, 1.0), 1e-6, 0.0);
        expect_close(dx, reference_of(x, shape, arrays, pairing, -1.0), 1e-6, 0.0);
      }
    }
  });
}

// <rope(x), dy> = <x, rope_backward(dy)>, which is what makes it the gradient.
TEST(Rope, BackwardIsTheTransposeOfForward) {
  Threads threads(1);
  for_every_target([&] {
    for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalves}) {
      const Grid x = random_matrix(6, 3 * 22, 0, 1), dy = random_matrix(6, 3 * 22, 0, 2);
      const Table arrays(3, 11);
      const RopeTable table = {arrays.cos.data(), arrays.sin.data(), 3};
      Grid y(6, 3 * 22), dx(6, 3 * 22);
      rope(x, 3, table, pairing, y, threads);
      rope_backward(dy, 3, table, pairing, dx, threads);
      EXPECT_NEAR(testing::inner_product(y.values(), dy.values()), testing::inner_product(x.values(), dx.values()),
                  1e-4);
    }
  });
}

TEST(Rope, InPlaceAndThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalves}) {
      const Grid x = random_matrix(200, 4 * 74, 0, 1);
      const Table arrays(100, 37);
      const RopeTable table = {arrays.cos.data(), arrays.sin.data(), 100};
      Grid y(200, 4 * 74), in_place(x);
      rope(x, 4, table, pairing, y, one);
      rope(in_place, 4, table, pairing, in_place, three);
      testing::expect_same_bits(y.array(), in_place.array());
    }
  });
}

TEST(Rope, NanStaysInItsPair) {
  Threads threads(1);
  for_every_target([&] {
    for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalves}) {
      Grid x = random_matrix(1, 18, 0, 1), y(1, 18);
      x.row(0)[4] = testing::kNan;
      const Table arrays(1, 9);
      rope(x, 1, {arrays.cos.data(), arrays.sin.data(), 1}, pairing, y, threads);
      const std::size_t partner = pairing == Pairing::kInterleaved ? 5 : 13;
      for (std::size_t j = 0; j < 18; ++j) EXPECT_EQ(std::isnan(y.row(0)[j]), j == 4 || j == partner) << j;
    }
  });
}

}  // namespace
}  // namespace reel::kernels
