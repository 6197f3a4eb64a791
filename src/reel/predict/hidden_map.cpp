#include "reel/predict/hidden_map.h"

#include <algorithm>
#include <cmath>

#include "reel/base/sized.h"
#include "reel/kernels/chunks.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gemm.h"
#include "reel/kernels/norm.h"
#include "reel/kernels/rope.h"

namespace reel::predict {

namespace {

constexpr float kNormEps = 1e-6f;

}  // namespace

Turns turns_of(const kernels::RopeAngles* angles, std::span<const std::int32_t> picked, const ModelHeads& shape,
               std::span<const std::int32_t> tokens, Threads& threads) {
  const std::size_t pairs = picked.size() / 2, turned = pairs / sized(shape.heads) * sized(turned_heads(angles, shape));
  if (turned == 0) return {};
  const std::size_t all = sized(shape.head_dim / 2);
  std::vector<std::size_t> from(turned);
  for (std::size_t i = 0; i < turned; ++i) {
    const auto first = sized(picked[2 * i]);
    from[i] = angles->pairing == kernels::Pairing::kInterleaved ? first / 2 : first % all;
  }
  Turns turns{Buffer<float>(tokens.size() * pairs), Buffer<float>(tokens.size() * pairs)};
  kernels::for_row_chunks(tokens.size(), pairs, threads, [&](std::size_t first, std::size_t end) {
    for (std::size_t t = first; t < end; ++t) {
      const std::size_t row = sized(tokens[t] % angles->period) * all;
      float *cos = turns.cos.data() + t * pairs, *sin = turns.sin.data() + t * pairs;
      for (std::size_t i = 0; i < turned; ++i) {
        cos[i] = angles->cos[row + from[i]];
        sin[i] = angles->sin[row + from[i]];
      }
      std::fill(cos + turned, cos + pairs, 1.0f);
      std::fill(sin + turned, sin + pairs, 0.0f);
    }
  });
  return turns;
}

HiddenMap::HiddenMap(const Projection& source, std::span<const std::int32_t> picked, const ModelHeads& shape,
                     std::span<const float> learnt)
    : width_(learnt.size() / picked.size() - 2),
      weight_(picked.size() * width_),
      bias_(picked.size()),
      gain_(picked.size()),
      norm_(source.norm.empty() ? 0 : picked.size()) {
  const float unit = 1.0f / std::sqrt(static_cast<float>(width_));
  const std::size_t rank = picked.size() / sized(shape.heads);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    const std::size_t row = i / rank * sized(shape.head_dim) + sized(picked[i]);
    const float* from = source.weight + row * width_;
    const float* own = learnt.data() + i * (width_ + 2);
    for (std::size_t j = 0; j < width_; ++j) weight_[i * width_ + j] = from[j] + unit * own[j];
    bias_[i] = (source.bias != nullptr ? source.bias[row] : 0.0f) + own[width_];
    if (source.norm.empty()) continue;
    norm_[i] = source.norm[row % source.norm.size()];
    gain_[i] = norm_[i] * own[width_ + 1];
  }
}

void HiddenMap::forward(kernels::ConstRows x, const Turns& turns, float* y, Kept& kept, Threads& threads) const {
  kept.u.grow(x.rows * numbers());
  kept.rstd.grow(x.rows);
  const kernels::Rows u(kept.u.data(), x.rows, numbers()), out(y, x.rows, numbers());
  kernels::gemm({.form = kernels::Form::kXWt,
                 .rows = x.rows,
                 .columns = numbers(),
                 .depth = width_,
                 .a = {x.data, x.stride},
                 .b = {weight_.data(), width_},
                 .c = u.data,
                 .c_stride = u.stride,
                 .bias = bias_.data()},
                threads);
  if (norm_.size() > 0) {
    kernels::rms_norm(u, gain_.data(), kNormEps, out, kept.rstd.data(), threads);
  } else {
    kernels::copy_rows(u, out, threads);
  }
  if (turns.cos.size() == 0) return;
  kernels::rope(out, 1, {turns.cos.data(), turns.sin.data(), x.rows}, kernels::Pairing::kInterleaved, out, threads);
}

void HiddenMap::backward(kernels::ConstRows x, const Turns& turns, const Kept& kept, float* dy,
                         std::span<float> gradient, Threads& threads) const {
  const std::size_t n = numbers(), stride = width_ + 2;
  const kernels::Rows du(dy, x.rows, n);
  Buffer<float> dbias(n), dgain = Buffer<float>::zeros(n);
  if (turns.cos.size() > 0) {
    kernels::rope_backward(du, 1, {turns.cos.data(), turns.sin.data(), x.rows}, kernels::Pairing::kInterleaved, du,
                           threads);
  }
  if (norm_.size() > 0) {
    kernels::rms_norm_backward({kept.u.data(), x.rows, n}, gain_.data(), kept.rstd.data(), du, du, dgain.data(),
                               threads);
  }
  kernels::column_sums(du, dbias.data(), kernels::Write::kOverwrite, threads);
  kernels::gemm({.form = kernels::Form::kDytX,
                 .rows = n,
                 .columns = width_,
                 .depth = x.rows,
                 .a = {du.data, du.stride},
                 .b = {x.data, x.stride},
                 .c = gradient.data(),
                 .c_stride = stride},
                threads);
  const float unit = 1.0f / std::sqrt(static_cast<float>(width_));
  for (std::size_t i = 0; i < n; ++i) {
    float* row = gradient.data() + i * stride;
    for (std::size_t j = 0; j < width_; ++j) row[j] *= unit;
    row[width_] = dbias[i];
    row[width_ + 1] = norm_.size() > 0 ? dgain[i] * norm_[i] : 0.0f;
  }
}

}  // namespace reel::predict
