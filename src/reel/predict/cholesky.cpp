#include "reel/predict/cholesky.h"

#include <algorithm>
#include <cmath>

namespace reel::predict {

Square cholesky(Square c, std::size_t n, double ridge) {
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += c[i * n + i];
  const double least = std::max(ridge * trace, 1e-20);
  for (std::size_t i = 0; i < n; ++i) c[i * n + i] += least;
  Square l(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = c[i * n + j];
      for (std::size_t m = 0; m < j; ++m) sum -= l[i * n + m] * l[j * n + m];
      l[i * n + j] = i == j ? std::sqrt(std::max(sum, least)) : sum / l[j * n + j];
    }
  }
  return l;
}

void solve_lower(const Square& l, std::size_t n, double* x) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) x[i] -= l[i * n + j] * x[j];
    x[i] /= l[i * n + i];
  }
}

void solve_transposed(const Square& l, std::size_t n, double* x) {
  for (std::size_t i = n; i-- > 0;) {  // by rows of L, which are contiguous
    x[i] /= l[i * n + i];
    for (std::size_t j = 0; j < i; ++j) x[j] -= l[i * n + j] * x[i];
  }
}

}  // namespace reel::predict
