#include "reel/study/hidden_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gather.h"
#include "reel/kernels/gemm.h"
#include "reel/predict/qk_predictor.h"

namespace reel::study {

namespace {

std::vector<double> column_means(const Buffer<float>& rows, std::size_t width, Threads& threads) {
  Buffer<float> sums(width);
  const std::size_t count = rows.size() / width;
  kernels::column_sums({rows.data(), count, width}, sums.data(), kernels::Write::kOverwrite, threads);
  std::vector<double> means;
  for (const float sum : sums) means.push_back(static_cast<double>(sum) / static_cast<double>(count));
  return means;
}

void subtract(Buffer<float>& rows, const std::vector<double>& means) {
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] -= static_cast<float>(means[i % means.size()]);
}

// What pair i adds to the variance of a query's scores: trace of the second moments of q times the covariance of k,
// both 2 x 2. The `count` pairs that add most, ascending.
std::vector<std::int32_t> heaviest_pairs(const float* q, const float* k, std::int64_t tokens, std::int64_t head_dim,
                                         std::int64_t count) {
  std::vector<std::pair<double, std::int32_t>> energies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double qq[3] = {}, kk[3] = {}, mean[2] = {};
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double a = q[t * head_dim + 2 * i], b = q[t * head_dim + 2 * i + 1];
      const double c = k[t * head_dim + 2 * i], d = k[t * head_dim + 2 * i + 1];
      qq[0] += a * a, qq[1] += a * b, qq[2] += b * b;
      kk[0] += c * c, kk[1] += c * d, kk[2] += d * d;
      mean[0] += c, mean[1] += d;
    }
    const double n = static_cast<double>(tokens);
    const double energy = qq[0] * (kk[0] - mean[0] * mean[0] / n) + 2 * qq[1] * (kk[1] - mean[0] * mean[1] / n) +
                          qq[2] * (kk[2] - mean[1] * mean[1] / n);
    energies.emplace_back(-energy, static_cast<std::int32_t>(i));
  }
  std::sort(energies.begin(), energies.end());
  std::vector<std::int32_t> pairs;
  for (std::int64_t i = 0; i < count; ++i) pairs.push_back(energies[sized(i)].second);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace

HiddenFit::HiddenFit(Buffer<float> hidden, std::int64_t tokens, Buffer<float> rope_cos, Buffer<float> rope_sin,
                     Threads& threads)
    : hidden_(std::move(hidden)),
      cos_(std::move(rope_cos)),
      sin_(std::move(rope_sin)),
      tokens_(tokens),
      width_(static_cast<std::int64_t>(hidden_.size()) / tokens) {
  const std::int64_t count = std::min(tokens_, std::max<std::int64_t>(4 * width_, 8192));
  for (std::int64_t i = 0; i < count; ++i) fitted_.push_back(static_cast<std::int32_t>(i * tokens_ / count));
  Buffer<float> rows(sized(count * width_));
  kernels::gather_rows({hidden_.data(), sized(tokens_), sized(width_)}, fitted_,
                       {rows.data(), sized(count), sized(width_)}, threads);
  mean_ = column_means(rows, sized(width_), threads);
  subtract(rows, mean_);
  subtract(hidden_, mean_);
  Buffer<float> product(sized(width_ * width_));
  kernels::gemm({.form = kernels::Form::kDytX,
                 .rows = sized(width_),
                 .columns = sized(width_),
                 .depth = sized(count),
                 .a = {rows.data(), sized(width_)},
                 .b = {rows.data(), sized(width_)},
                 .c = product.data(),
                 .c_stride = sized(width_)},
                threads);
  factor_ = predict::cholesky(predict::Square(product.begin(), product.end()), sized(width_));
}

// Predictions [tokens][numbers] of linear maps fitted to `targets` [tokens][numbers].
Buffer<float> HiddenFit::map(const Buffer<float>& targets, std::int64_t numbers, Threads& threads) const {
  const std::size_t count = fitted_.size(), width = sized(width_), n = sized(numbers);
  Buffer<float> x(count * width), y(count * n), product(n * width);
  kernels::gather_rows({hidden_.data(), sized(tokens_), width}, fitted_, {x.data(), count, width}, threads);
  kernels::gather_rows({targets.data(), sized(tokens_), n}, fitted_, {y.data(), count, n}, threads);
  const std::vector<double> means = column_means(y, n, threads);
  subtract(y, means);
  kernels::gemm({.form = kernels::Form::kDytX,
                 .rows = n,
                 .columns = width,
                 .depth = count,
                 .a = {y.data(), n},
                 .b = {x.data(), width},
                 .c = product.data(),
                 .c_stride = width},
                threads);
  threads.run(numbers, [&](std::int64_t i, int) {  // a row of the map each
    float* row = product.data() + sized(i) * width;
    std::vector<double> weights(row, row + width);
    predict::solve_lower(factor_, width, weights.data());
    predict::solve_transposed(factor_, width, weights.data());
    for (std::size_t c = 0; c < width; ++c) row[c] = static_cast<float>(weights[c]);
  });
  std::vector<float> bias(means.begin(), means.end());
  Buffer<float> out(sized(tokens_) * n);
  kernels::gemm({.form = kernels::Form::kXWt,
                 .rows = sized(tokens_),
                 .columns = n,
                 .depth = width,
                 .a = {hidden_.data(), width},
                 .b = {product.data(), width},
                 .c = out.data(),
                 .c_stride = n,
                 .bias = bias.data()},
                threads);
  return out;
}

void HiddenFit::turn(float* rows, const std::vector<std::int32_t>& pairs, bool back) const {
  const std::size_t half = cos_.size() / sized(tokens_), numbers = 2 * pairs.size();
  for (std::size_t t = 0; t < sized(tokens_); ++t) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const float c = cos_[t * half + sized(pairs[i])];
      const float s = back ? -sin_[t * half + sized(pairs[i])] : sin_[t * half + sized(pairs[i])];
      float* pair = rows + t * numbers + 2 * i;
      const float a = pair[0], b = pair[1];
      pair[0] = a * c - b * s;
      pair[1] = a * s + b * c;
    }
  }
}

LowPair HiddenFit::fit(const float* q, const float* k, std::int64_t head_dim, std::int64_t rank,
                       Threads& threads) const {
  LowPair low;
  if (cos_.size() == 0) {
    low.rank = std::min(rank, head_dim);
    predict::QkPredictor closed({1, 1, head_dim}, low.rank);
    const predict::Seen seen{0, 1, tokens_, q, k, nullptr};
    closed.learn(seen, true, threads);
    std::vector<std::int32_t> all(sized(tokens_));
    std::iota(all.begin(), all.end(), 0);
    const std::int64_t head = 0;
    Buffer<float> targets_q(sized(tokens_ * low.rank)), targets_k(sized(tokens_ * low.rank));
    closed.predict(seen, std::span(&head, 1), all, low.rank, targets_q.data(), targets_k.data(), threads);
    low.q = map(targets_q, low.rank, threads);
    low.k = map(targets_k, low.rank, threads);
    return low;
  }
  const std::vector<std::int32_t> pairs =
      heaviest_pairs(q, k, tokens_, head_dim, std::clamp<std::int64_t>((rank + 1) / 2, 1, head_dim / 2));
  low.rank = 2 * static_cast<std::int64_t>(pairs.size());
  for (const auto& [rows, out] : {std::pair(q, &low.q), {k, &low.k}}) {
    Buffer<float> targets(sized(tokens_ * low.rank));
    for (std::int64_t t = 0; t < tokens_; ++t) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        std::copy_n(rows + t * head_dim + 2 * pairs[i], 2,
                    targets.data() + t * low.rank + 2 * static_cast<std::int64_t>(i));
      }
    }
    turn(targets.data(), pairs, true);
    *out = map(targets, low.rank, threads);
    turn(out->data(), pairs, false);
  }
  return low;
}

HiddenFit fit_hidden(const QkFile& file, const lists::TokenOrder& order, Threads& threads) {
  const auto rope = [&](const char* name) {
    return file.has_rope() ? file.rows(name, order.raster, threads) : Buffer<float>();
  };
  return {file.rows("hidden", order.raster, threads), order.tokens(), rope("rope_cos"), rope("rope_sin"), threads};
}

}  // namespace reel::study
