#include "reel/kernels/rope.h"

#include <algorithm>
#include <cmath>

#include "reel/kernels/elementwise.h"
#include "reel/tape/operations.h"

namespace reel::tape {

namespace {

// Writes the angles of `pairs` pairs at one position into a row of the tables. Double: positions times small
// frequencies lose digits in f32.
void fill(RopeAngles& angles, std::size_t at, std::int64_t position, std::int64_t pairs, double theta) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs));
    angles.cos[at + static_cast<std::size_t>(i)] = static_cast<float>(std::cos(angle));
    angles.sin[at + static_cast<std::size_t>(i)] = static_cast<float>(std::sin(angle));
  }
}

std::shared_ptr<RopeAngles> tables(std::int64_t positions, std::int64_t head_dim) {
  REEL_CHECK(head_dim % 2 == 0);
  auto angles = std::make_shared<RopeAngles>();
  angles->cos = Buffer<float>(static_cast<std::size_t>(positions * head_dim / 2));
  angles->sin = Buffer<float>(static_cast<std::size_t>(positions * head_dim / 2));
  angles->period = positions;
  return angles;
}

}  // namespace

std::shared_ptr<RopeAngles> rope_1d(std::int64_t positions, std::int64_t head_dim, double theta) {
  auto angles = tables(positions, head_dim);
  for (std::int64_t p = 0; p < positions; ++p) {
    fill(*angles, static_cast<std::size_t>(p * head_dim / 2), p, head_dim / 2, theta);
  }
  return angles;
}

std::shared_ptr<RopeAngles> rope_3d(std::int64_t frames, std::int64_t rows, std::int64_t columns, std::int64_t head_dim,
                                    double theta) {
  auto angles = tables(frames * rows * columns, head_dim);
  const std::int64_t place = head_dim / 6, time = head_dim / 2 - 2 * place;  // pairs
  std::size_t at = 0;
  for (std::int64_t t = 0; t < frames; ++t) {
    for (std::int64_t y = 0; y < rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x, at += static_cast<std::size_t>(head_dim / 2)) {
        fill(*angles, at, t, time, theta);
        fill(*angles, at + static_cast<std::size_t>(time), y, place, theta);
        fill(*angles, at + static_cast<std::size_t>(time + place), x, place, theta);
      }
    }
  }
  return angles;
}

Tensor rope(Tape& tape, const Tensor& x, const std::shared_ptr<const RopeAngles>& angles) {
  const std::int64_t heads = x.dim(-2), head_dim = x.dim(-1), tokens = x.size() / (heads * head_dim);
  const std::int64_t turned = angles->heads < 0 ? heads : std::min(angles->heads, heads);
  REEL_CHECK(static_cast<std::int64_t>(angles->cos.size()) == angles->period * head_dim / 2);
  // The kernel counts tokens through: each batch entry has to begin with the table.
  REEL_CHECK(x.dim(-3) == tokens || x.dim(-3) % angles->period == 0);
  // Heads [first, first + count) of every token.
  const auto part = [=](const Tensor& t, std::int64_t first, std::int64_t count) {
    return kernels::Rows(t.data() + first * head_dim, static_cast<std::size_t>(tokens),
                         static_cast<std::size_t>(count * head_dim), static_cast<std::size_t>(heads * head_dim));
  };
  const auto turn = [=](const Tensor& from, const Tensor& to, auto rotation, Threads& threads) {
    const kernels::RopeTable table{angles->cos.data(), angles->sin.data(), static_cast<std::size_t>(angles->period)};
    if (turned > 0) {
      rotation(part(from, 0, turned), static_cast<std::size_t>(turned), table, angles->pairing, part(to, 0, turned),
               threads);
    }
    if (turned < heads)
      kernels::copy_rows(part(from, turned, heads - turned), part(to, turned, heads - turned), threads);
  };
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"rope", x.size(), 3, 2}, [&] { turn(x, y, kernels::rope, tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"rope", x.size(), 3, 2}, [&] { turn(dy, dx, kernels::rope_backward, back.threads()); });
    back.give(x, dx);
  });
  return y;
}

}  // namespace reel::tape
