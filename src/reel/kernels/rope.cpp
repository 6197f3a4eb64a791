#include "reel/kernels/rope.h"

#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/rope.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

void RopeHalves(const float* x, std::size_t heads, std::size_t half, const float* cos, const float* sin, float sign,
                float* y) {
  const VF turn = hn::Set(DF(), sign);
  for (std::size_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half) {
    ForVectors(half, [&](std::size_t i, auto extent) REEL_INLINE {
      const VF c = Load(cos + i, extent), s = hn::Mul(turn, Load(sin + i, extent));
      const VF a = Load(x + i, extent), b = Load(x + half + i, extent);
      Store(hn::NegMulAdd(b, s, hn::Mul(a, c)), y + i, extent);
      Store(hn::MulAdd(a, s, hn::Mul(b, c)), y + half + i, extent);
    });
  }
}

// The table of a token is spread once for all heads, scratch = c0 c0 c1 c1 ... and then -s0 s0 -s1 s1 ...: a vector of
// pairs then needs one exchange of neighbours.
void RopeInterleaved(const float* x, std::size_t heads, std::size_t half, const float* cos, const float* sin,
                     float sign, float* y, float* scratch) {
  const DF d;
  const std::size_t width = 2 * half;
  float* cos_pairs = scratch;
  float* sin_pairs = scratch + width;
  std::size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const VF c = hn::LoadU(d, cos + i), s = hn::Mul(hn::Set(d, sign), hn::LoadU(d, sin + i));
    hn::StoreInterleaved2(c, c, d, cos_pairs + 2 * i);
    hn::StoreInterleaved2(hn::Neg(s), s, d, sin_pairs + 2 * i);
  }
  for (; i < half; ++i) {
    cos_pairs[2 * i] = cos_pairs[2 * i + 1] = cos[i];
    sin_pairs[2 * i] = -sign * sin[i];
    sin_pairs[2 * i + 1] = sign * sin[i];
  }
  for (std::size_t h = 0; h < heads; ++h, x += width, y += width) {
    ForVectors(width, [&](std::size_t j, auto extent) REEL_INLINE {
      const VF v = Load(x + j, extent);
      const VF turned = hn::Mul(hn::Reverse2(d, v), Load(sin_pairs + j, extent));
      Store(hn::MulAdd(v, Load(cos_pairs + j, extent), turned), y + j, extent);
    });
  }
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(RopeHalves);
HWY_EXPORT(RopeInterleaved);

namespace {

void turn(const ConstRows& x, std::size_t heads, const RopeTable& table, Pairing pairing, float sign, const Rows& y,
          Threads& threads) {
  REEL_CHECK(same_shape(x, y));
  if (x.rows == 0 || x.width == 0) return;
  REEL_CHECK(heads > 0 && x.width % (2 * heads) == 0 && table.period > 0);
  const std::size_t half = x.width / heads / 2;
  for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
    Buffer<float> scratch(pairing == Pairing::kInterleaved ? 4 * half : 0);
    for (std::size_t t = first; t < end; ++t) {
      const float* cos = table.cos + t % table.period * half;
      const float* sin = table.sin + t % table.period * half;
      if (pairing == Pairing::kHalves) {
        REEL_DISPATCH(RopeHalves)(x.row(t), heads, half, cos, sin, sign, y.row(t));
      } else {
        REEL_DISPATCH(RopeInterleaved)(x.row(t), heads, half, cos, sin, sign, y.row(t), scratch.data());
      }
    }
  });
}

}  // namespace

void rope(ConstRows x, std::size_t heads, const RopeTable& table, Pairing pairing, Rows y, Threads& threads) {
  turn(x, heads, table, pairing, 1.0f, y, threads);
}

void rope_backward(ConstRows dy, std::size_t heads, const RopeTable& table, Pairing pairing, Rows dx,
                   Threads& threads) {
  turn(dy, heads, table, pairing, -1.0f, dx, threads);
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
