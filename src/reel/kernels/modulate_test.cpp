#include "reel/kernels/modulate.h"

#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::expect_close;
using testing::for_every_target;
using testing::Grid;
using testing::kNan;
using testing::kWidths;
using testing::random_matrix;

// The formulas of the header in double; sums over the rows of an item.
struct Reference {
  std::vector<double> y, dx, dscale, dshift, gated, dr, dgate;
};
Reference reference_of(const Grid& x, const Grid& scale, const Grid& shift, const Grid& dy) {
  Reference out;
  const std::size_t per_item = x.rows() / scale.rows(), width = x.width();
  out.dscale = out.dshift = out.dgate = std::vector<double>(scale.rows() * width, 0.0);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const std::size_t item = i / per_item;
    for (std::size_t j = 0; j < width; ++j) {
      const double v = x.row(i)[j], s = scale.row(item)[j], g = dy.row(i)[j];
      out.y.push_back(v * (1.0 + s) + shift.row(item)[j]);
      out.dx.push_back(g * (1.0 + s));
      out.dscale[item * width + j] += g * v;
      out.dshift[item * width + j] += g;
      out.gated.push_back(dy.row(i)[j] + s * v);  // x = dy, gate = scale, r = x
      out.dr.push_back(g * s);
    }
  }
  out.dgate = out.dscale;
  return out;
}

// Items of one row, of a few, and of several chunks.
struct Shape {
  std::size_t items, per_item;
};
constexpr Shape kShapes[] = {{1, 1}, {3, 1}, {2, 5}, {2, 130}};

TEST(Modulate, ForwardAndBackwardMatchReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const Shape shape : kShapes) {
      for (const std::size_t width : kWidths) {
        const std::size_t rows = shape.items * shape.per_item;
        const Grid x = random_matrix(rows, width, 1, 1), dy = random_matrix(rows, width, 3, 2);
        const Grid scale = random_matrix(shape.items, width, 5 * width, 3);  // slices of one projection
        const Grid shift = random_matrix(shape.items, width, 5 * width, 4);
        const Reference want = reference_of(x, scale, shift, dy);
        Grid y(rows, width, 2), dx(rows, width, 2), dscale(shape.items, width, 1), dshift(shape.items, width, 1);
        modulate(x, scale, shift, y, threads);
        modulate_backward(x, scale, dy, dx, dscale, dshift, threads);
        expect_close(y, want.y, 2e-6, 2e-7);  // three roundings of numbers below 10
        expect_close(dx, want.dx, 1e-6, 2e-7);
        expect_close(dscale, want.dscale, 3e-5, 1e-6);  // up to 130 terms
        expect_close(dshift, want.dshift, 3e-5, 1e-6);
      }
    }
  });
}

TEST(Gate, ForwardAndBackwardMatchReference) {
  Threads threads(2);
  for_every_target([&] {
    for (const Shape shape : kShapes) {
      for (const std::size_t width : kWidths) {
        const std::size_t rows = shape.items * shape.per_item;
        const Grid r = random_matrix(rows, width, 1, 1), x = random_matrix(rows, width, 3, 2);
        const Grid factors = random_matrix(shape.items, width, 5 * width, 3);
        const Reference want = reference_of(r, factors, factors, x);
        Grid y(rows, width, 2), dr(rows, width, 2), dgate(shape.items, width, 1);
        gate(x, factors, r, y, threads);
        gate_backward(factors, r, x, dr, dgate, threads);
        expect_close(y, want.gated, 2e-6, 2e-7);
        expect_close(dr, want.dr, 1e-6, 2e-7);
        expect_close(dgate, want.dgate, 3e-5, 1e-6);
      }
    }
  });
}

TEST(Modulate, InPlaceAndThreeThreadsGiveTheSameBits) {
  Threads one(1), three(3);
  for_every_target([&] {
    const Grid x = random_matrix(600, 65, 0, 1), dy = random_matrix(600, 65, 0, 2);
    const Grid scale = random_matrix(2, 65, 0, 3), shift = random_matrix(2, 65, 0, 4);
    Grid y(600, 65), y3(x), dx(600, 65), dx3(dy), a(2, 65), a3(2, 65), b(2, 65), b3(2, 65);
    modulate(x, scale, shift, y, one);
    modulate(y3, scale, shift, y3, three);
    testing::expect_same_bits(y.array(), y3.array());
    modulate_backward(x, scale, dy, dx, a, b, one);
    modulate_backward(x, scale, dx3, dx3, a3, b3, three);
    testing::expect_same_bits(dx.array(), dx3.array());
    testing::expect_same_bits(a.array(), a3.array());
    testing::expect_same_bits(b.array(), b3.array());
    Grid g(600, 65), g3(x), dr(600, 65), dr3(dy);
    gate(x, scale, dy, g, one);
    gate(g3, scale, dy, g3, three);
    testing::expect_same_bits(g.array(), g3.array());
    gate_backward(scale, x, dy, dr, a, one);
    gate_backward(scale, x, dr3, dr3, a3, three);
    testing::expect_same_bits(dr.array(), dr3.array());
    testing::expect_same_bits(a.array(), a3.array());
  });
}

TEST(Modulate, NanReachesItsElementAndItsSums) {
  Threads threads(1);
  for_every_target([&] {
    Grid x = random_matrix(4, 9, 0, 1);
    const Grid dy = random_matrix(4, 9, 0, 2), scale = random_matrix(2, 9, 0, 3);
    x.row(1)[8] = kNan;
    Grid y(4, 9), dx(4, 9), dscale(2, 9), dshift(2, 9);
    modulate(x, scale, scale, y, threads);
    modulate_backward(x, scale, dy, dx, dscale, dshift, threads);
    EXPECT_TRUE(std::isnan(y.row(1)[8]) && !std::isnan(y.row(1)[7]) && !std::isnan(y.row(2)[8]));
    EXPECT_TRUE(std::isnan(dscale.row(0)[8]) && !std::isnan(dscale.row(1)[8]) && !std::isnan(dshift.row(0)[8]));
  });
}

TEST(Modulate, NoTokensGiveZeroGradients) {
  Threads threads(2);
  const Grid scale = random_matrix(2, 5, 0, 1), none(0, 5);
  Grid y(0, 5), dscale(2, 5), dshift(2, 5);
  modulate(none, scale, scale, y, threads);
  modulate_backward(none, scale, none, y, dscale, dshift, threads);
  for (const float value : dscale.array()) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace reel::kernels
