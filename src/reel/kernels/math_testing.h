// Elementary functions of arrays, f32: y[i] = f(x[i]), for the tests of math-inl.h, which states accuracy and special
// values. In place is fine. For tests only.
#pragma once

#include <span>

namespace reel::kernels {

void exp(std::span<const float> x, std::span<float> y);
void log(std::span<const float> x, std::span<float> y);
void tanh(std::span<const float> x, std::span<float> y);
void erf(std::span<const float> x, std::span<float> y);
void sigmoid(std::span<const float> x, std::span<float> y);

}  // namespace reel::kernels
