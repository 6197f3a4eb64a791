#include "reel/kernels/rope_angles.h"

#include <cmath>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::kernels {

namespace {

// Writes the angles of `pairs` pairs at one position into a row of the tables. Double: positions times small
// frequencies lose digits in f32.
void fill(RopeAngles& angles, std::size_t at, std::int64_t position, std::int64_t pairs, double theta) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs));
    angles.cos[at + sized(i)] = static_cast<float>(std::cos(angle));
    angles.sin[at + sized(i)] = static_cast<float>(std::sin(angle));
  }
}

std::shared_ptr<RopeAngles> tables(std::int64_t positions, std::int64_t head_dim) {
  REEL_CHECK(head_dim % 2 == 0);
  auto angles = std::make_shared<RopeAngles>();
  angles->cos = Buffer<float>(sized(positions * head_dim / 2));
  angles->sin = Buffer<float>(sized(positions * head_dim / 2));
  angles->period = positions;
  return angles;
}

}  // namespace

std::shared_ptr<RopeAngles> rope_1d(std::int64_t positions, std::int64_t head_dim, double theta) {
  auto angles = tables(positions, head_dim);
  for (std::int64_t p = 0; p < positions; ++p) {
    fill(*angles, sized(p * head_dim / 2), p, head_dim / 2, theta);
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
      for (std::int64_t x = 0; x < columns; ++x, at += sized(head_dim / 2)) {
        fill(*angles, at, t, time, theta);
        fill(*angles, at + sized(time), y, place, theta);
        fill(*angles, at + sized(time + place), x, place, theta);
      }
    }
  }
  return angles;
}

}  // namespace reel::kernels
