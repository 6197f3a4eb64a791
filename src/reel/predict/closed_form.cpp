#include "reel/predict/closed_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/predict/cholesky.h"

namespace reel::predict {

namespace {

// Singular value decomposition A = U E V^T by one-sided Jacobi rotations: columns of A are turned until they are
// orthogonal. Slow and safe; n is small.
struct Svd {
  Square u, v;            // columns
  std::vector<double> e;  // not sorted
};

Svd decompose(Square a, std::size_t n) {
  Square v(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  // Worked on transposed, so that a column is contiguous.
  Square columns(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) columns[j * n + i] = a[i * n + j];
  }
  for (int sweep = 0; sweep < 30; ++sweep) {
    double off = 0;
    for (std::size_t p = 0; p + 1 < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        double* x = &columns[p * n];
        double* y = &columns[q * n];
        const double xx = std::inner_product(x, x + n, x, 0.0), yy = std::inner_product(y, y + n, y, 0.0);
        const double xy = std::inner_product(x, x + n, y, 0.0);
        const double size = std::sqrt(xx * yy);
        if (size == 0 || std::abs(xy) <= 1e-13 * size) continue;
        off = std::max(off, std::abs(xy) / size);
        const double zeta = (yy - xx) / (2 * xy);
        const double t = (zeta >= 0 ? 1.0 : -1.0) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        for (double* pair : {&columns[0], &v[0]}) {
          double* first = pair + p * n;
          double* second = pair + q * n;
          for (std::size_t i = 0; i < n; ++i) {
            const double f = first[i], g = second[i];
            first[i] = c * f - s * g;
            second[i] = s * f + c * g;
          }
        }
      }
    }
    if (off < 1e-10) break;
  }
  Svd svd{Square(n * n), std::move(v), std::vector<double>(n)};
  for (std::size_t j = 0; j < n; ++j) {
    const double* column = &columns[j * n];
    svd.e[j] = std::sqrt(std::inner_product(column, column + n, column, 0.0));
    for (std::size_t i = 0; i < n; ++i) svd.u[j * n + i] = svd.e[j] > 0 ? column[i] / svd.e[j] : 0;
  }
  return svd;  // u and v hold a vector in each row
}

}  // namespace

void Moments::mix(const Moments& fresh, double decay) {
  if (empty()) {
    *this = fresh;
    return;
  }
  REEL_CHECK(dim == fresh.dim);
  for (std::size_t i = 0; i < product.size(); ++i) product[i] = decay * product[i] + (1 - decay) * fresh.product[i];
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = decay * mean[i] + (1 - decay) * fresh.mean[i];
}

LowRank closed_form(const Moments& q, const Moments& k, std::int64_t rank) {
  REEL_CHECK(q.dim == k.dim && !q.empty() && !k.empty() && rank >= 1);
  const std::size_t n = sized(q.dim);
  Square centred = k.product;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) centred[i * n + j] -= k.mean[i] * k.mean[j];
  }
  const Square lq = cholesky(q.product, n), lk = cholesky(std::move(centred), n);
  Square product(n * n, 0.0);  // L_q^T L_k
  for (std::size_t m = 0; m < n; ++m) {
    for (std::size_t i = 0; i <= m; ++i) {
      for (std::size_t j = 0; j <= m; ++j) product[i * n + j] += lq[m * n + i] * lk[m * n + j];
    }
  }
  const Svd svd = decompose(std::move(product), n);
  std::vector<std::size_t> by_size(n);
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) { return svd.e[a] > svd.e[b]; });

  LowRank low;
  low.dim = q.dim;
  low.rank = std::min(rank, q.dim);
  const std::size_t r = sized(low.rank);
  low.q.resize(n * r);
  low.k.resize(n * r);
  for (const std::size_t i : by_size) low.spectrum.push_back(svd.e[i]);
  for (std::size_t c = 0; c < r; ++c) {
    const std::size_t at = by_size[c];
    const double root = std::sqrt(svd.e[at]);
    std::vector<double> left(&svd.u[at * n], &svd.u[at * n] + n), right(&svd.v[at * n], &svd.v[at * n] + n);
    solve_transposed(lq, n, left.data());
    solve_transposed(lk, n, right.data());
    for (std::size_t i = 0; i < n; ++i) {
      low.q[i * r + c] = static_cast<float>(left[i] * root);
      low.k[i * r + c] = static_cast<float>(right[i] * root);
    }
  }
  return low;
}

std::int64_t rank_for(std::span<const double> spectrum, double share, std::int64_t most) {
  double all = 0, kept = 0;
  for (const double e : spectrum) all += e * e;
  const std::int64_t dim = static_cast<std::int64_t>(spectrum.size());
  std::int64_t rank = 0;
  while (rank < std::min(most, dim)) {
    const std::int64_t next = std::min<std::int64_t>(rank + 8, std::min(most, dim));
    for (; rank < next; ++rank) kept += spectrum[sized(rank)] * spectrum[sized(rank)];
    if (kept >= share * all) break;
  }
  return rank;
}

}  // namespace reel::predict
