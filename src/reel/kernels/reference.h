// The kernels of this room once more, slow and obvious: double precision, plain loops over one row or one element.
// Gradients need no reference of their own; the tests differentiate these numerically. For tests only.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "reel/kernels/activation.h"
#include "reel/kernels/rope.h"

namespace reel::kernels::reference {

using Row = std::vector<double>;

inline double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::kNone:
      return x;
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
  }
  return 0.0;
}

inline double mean(std::span<const double> x) {
  double sum = 0.0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

// An empty weight is all ones, an empty bias all zeros.
inline Row layer_norm(std::span<const double> x, std::span<const double> weight, std::span<const double> bias,
                      double eps) {
  const double m = mean(x);
  double variance = 0.0;
  for (const double value : x) variance += (value - m) * (value - m) / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - m) / std::sqrt(variance + eps) * (weight.empty() ? 1.0 : weight[i]) + (bias.empty() ? 0.0 : bias[i]);
  }
  return y;
}

inline Row rms_norm(std::span<const double> x, std::span<const double> weight, double eps) {
  double square = 0.0;
  for (const double value : x) square += value * value / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / std::sqrt(square + eps) * (weight.empty() ? 1.0 : weight[i]);
  return y;
}

inline Row softmax(std::span<const double> x, double* lse = nullptr) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (const double value : x) largest = std::fmax(largest, value);
  Row y(x.size(), 0.0);
  if (largest == -std::numeric_limits<double>::infinity()) {
    bool any_nan = false;
    for (const double value : x) any_nan = any_nan || std::isnan(value);
    if (!any_nan) {
      if (lse != nullptr) *lse = largest;
      return y;
    }
    largest = 0.0;
  }
  for (const double value : x) sum += std::exp(value - largest);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::exp(x[i] - largest) / sum;
  if (lse != nullptr) *lse = largest + std::log(sum);
  return y;
}

// One head; cos and sin have head_dim / 2 entries.
inline Row rope(std::span<const double> x, std::span<const double> cos, std::span<const double> sin, Pairing pairing) {
  Row y(x.size());
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t a = pairing == Pairing::kInterleaved ? 2 * i : i;
    const std::size_t b = pairing == Pairing::kInterleaved ? 2 * i + 1 : i + half;
    y[a] = x[a] * cos[i] - x[b] * sin[i];
    y[b] = x[b] * cos[i] + x[a] * sin[i];
  }
  return y;
}

}  // namespace reel::kernels::reference
