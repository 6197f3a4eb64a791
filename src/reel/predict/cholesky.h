// Square matrices of a few dozen to a few thousand rows, row-major, in double: factors and what is solved with them.
#pragma once

#include <cstddef>
#include <vector>

namespace reel::predict {

using Square = std::vector<double>;

// The lower triangle L with C + ridge = L L^T. Moments are sums of f32: where rows live in fewer directions than there
// are, C is singular up to their rounding, some 1e-7 of its trace. The ridge, `ridge` of the trace, lies above that,
// and no pivot below the ridge, else what is solved grows beyond all bounds.
Square cholesky(Square c, std::size_t n, double ridge = 1e-6);

void solve_lower(const Square& l, std::size_t n, double* x);       // x = L^-1 x
void solve_transposed(const Square& l, std::size_t n, double* x);  // x = L^-T x

}  // namespace reel::predict
