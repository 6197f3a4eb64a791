// Elementary functions of arrays, f32: y[i] = f(x[i]). In place is fine. Serial; accuracy and special values are stated
// in math-inl.h, where the vector functions are.
#pragma once

#include <span>

namespace reel::kernels {

void exp(std::span<const float> x, std::span<float> y);
void log(std::span<const float> x, std::span<float> y);
void tanh(std::span<const float> x, std::span<float> y);
void erf(std::span<const float> x, std::span<float> y);
void sigmoid(std::span<const float> x, std::span<float> y);

}  // namespace reel::kernels
