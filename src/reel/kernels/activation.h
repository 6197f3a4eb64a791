// Activations of the feed-forward layers, f32.
//
//   gelu_tanh(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))      (DiT, PyTorch's approximate="tanh")
//   gelu_erf(x)  = x/2 (1 + erf(x / sqrt(2)))
//   silu(x)      = x / (1 + e^-x)
//
// Arrays are flat; all of a call have the same size. Outputs may be the very same array as an input (in place), but may
// not overlap it otherwise. Outputs are overwritten. NaN gives NaN; large numbers of either sign give x or 0 (and no
// NaN), infinities may give NaN.
// Absolute error of a value and of a derivative: below 4e-7 max(1, |x|).
#pragma once

#include <span>

#include "reel/base/threads.h"

namespace reel::kernels {

enum class Activation { kNone, kGeluTanh, kGeluErf, kSilu };

void activation(Activation kind, std::span<const float> x, std::span<float> y, Threads& threads);
// dx = dy * kind'(x)
void activation_backward(Activation kind, std::span<const float> x, std::span<const float> dy, std::span<float> dx,
                         Threads& threads);

}  // namespace reel::kernels
