// Rotary position embedding: each pair of a head's numbers is turned by an angle that depends on the token.
//
//   (a, b) -> (a cos - b sin, b cos + a sin)
//
// x is [tokens][heads][head_dim]: one row a token of heads * head_dim floats, with a row stride (q and k may be slices
// of one projection). cos and sin are [period][head_dim / 2], contiguous; token t uses row t % period, so a batch of
// items of `period` tokens shares one table. head_dim is even.
//
// The gradient of a rotation is the opposite rotation: dx = rope_backward(dy). Outputs are overwritten; in place is
// fine.
#pragma once

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

enum class Pairing {
  kInterleaved,  // (x0, x1), (x2, x3), ...             as in the RoFormer paper; Wan, Open-Sora
  kHalves,       // (x0, x[d/2]), (x1, x[d/2 + 1]), ... as in GPT-NeoX and Llama's converted weights
};

struct RopeTable {
  const float* cos;
  const float* sin;
  std::size_t period;  // tokens
};

void rope(ConstRows x, std::size_t heads, const RopeTable& table, Pairing pairing, Rows y, Threads& threads);
void rope_backward(ConstRows dy, std::size_t heads, const RopeTable& table, Pairing pairing, Rows dx, Threads& threads);

}  // namespace reel::kernels
