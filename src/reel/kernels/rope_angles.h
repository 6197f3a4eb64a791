// Tables of the angles by which rotary position embedding (rope.h) turns the tokens of a clip.
#pragma once

#include <cstdint>
#include <memory>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/kernels/rope.h"

namespace reel::kernels {

// cos and sin are [period][head_dim / 2]; token t of every batch entry uses row t % period. Only the first `heads`
// heads are turned (all of them where it is negative).
struct RopeAngles {
  Buffer<float> cos, sin;
  std::int64_t period = 0;
  Pairing pairing = Pairing::kInterleaved;
  std::int64_t heads = -1;

  RopeTable table() const { return {cos.data(), sin.data(), sized(period)}; }
};

// One axis: the angle of pair i at position p is p * theta^(-2 i / head_dim).
std::shared_ptr<RopeAngles> rope_1d(std::int64_t positions, std::int64_t head_dim, double theta);

// Three axes (frames, rows, columns), tokens in raster order. As in Wan: columns and rows get 2 (head_dim / 6) numbers
// of a head each, frames get the rest.
std::shared_ptr<RopeAngles> rope_3d(std::int64_t frames, std::int64_t rows, std::int64_t columns, std::int64_t head_dim,
                                    double theta);

}  // namespace reel::kernels
