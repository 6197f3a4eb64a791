// One step of AdamW (Loshchilov & Hutter, 2019) and of an exponential moving average, over flat f32 arrays, in place.
//
//   g' = grad_scale * g
//   m  = beta1 m + (1 - beta1) g'
//   v  = beta2 v + (1 - beta2) g'^2
//   p  = p - lr * weight_decay * p - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
//
// Decay acts on the parameter before the step, as in PyTorch. Element-wise: shards give the bits of the whole.
#pragma once

#include <cstdint>
#include <span>

#include "reel/base/threads.h"

namespace reel::kernels {

struct AdamW {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double grad_scale = 1.0;  // below 1 where gradients are clipped
  std::int64_t step = 1;    // 1 for the first: it corrects the bias of m and v, which begin with zeros
};

void adamw_step(const AdamW& adamw, std::span<float> p, std::span<const float> g, std::span<float> m,
                std::span<float> v, Threads& threads);

// average = decay * average + (1 - decay) * p
void ema_step(double decay, std::span<const float> p, std::span<float> average, Threads& threads);

}  // namespace reel::kernels
