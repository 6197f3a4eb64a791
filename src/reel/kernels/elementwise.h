// Sums, multiples and copies of arrays, f32, and the reductions that training needs.
//
// Flat arrays of a call have the same size; in place is fine. Sums of flat arrays come in double: f32 within 1024
// elements, double beyond, in an order that depends on the size alone. A NaN or an infinity shows in every sum.
#pragma once

#include <span>

#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

void add(std::span<const float> x, std::span<const float> y, std::span<float> out, Threads& threads);
void scale(float a, std::span<const float> x, std::span<float> out, Threads& threads);  // out = a x
void axpy(float a, std::span<const float> x, std::span<float> y, Threads& threads);     // y += a x

// Between any two row strides; not in place.
void copy_rows(ConstRows x, Rows y, Threads& threads);
// out[j] = or += the sum of x[i][j] over the rows i: the gradient of a bias.
void column_sums(ConstRows x, float* out, Write write, Threads& threads);

double dot(std::span<const float> x, std::span<const float> y, Threads& threads);
double sum_squares(std::span<const float> x, Threads& threads);  // inf where a square exceeds f32

// The mean of (x - target)^2, 0 for empty arrays; and dx = dloss * 2 (x - target) / size.
double mean_squared_error(std::span<const float> x, std::span<const float> target, Threads& threads);
void mean_squared_error_backward(std::span<const float> x, std::span<const float> target, float dloss,
                                 std::span<float> dx, Threads& threads);

// Whether there is a NaN or an infinity.
bool any_not_finite(std::span<const float> x, Threads& threads);

}  // namespace reel::kernels
