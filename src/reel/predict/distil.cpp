#include "reel/predict/distil.h"

#include <cmath>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gemm.h"
#include "reel/kernels/softmax.h"

namespace reel::predict {

namespace {

// The weights that queries [queries][dim] give to keys [keys][dim], rows `stride` floats apart.
void attend(const DistilInput& in, const float* q, const float* k, std::int64_t dim, std::int64_t stride,
            Buffer<float>& weights, Threads& threads) {
  kernels::gemm({.form = kernels::Form::kXWt,
                 .rows = sized(in.queries),
                 .columns = sized(in.keys),
                 .depth = sized(dim),
                 .a = {q, sized(stride)},
                 .b = {k, sized(stride)},
                 .c = weights.data(),
                 .c_stride = sized(in.keys)},
                threads);
  kernels::scale(1.0f / std::sqrt(static_cast<float>(in.head_dim)), weights, weights, threads);
  const kernels::Rows rows(weights.data(), sized(in.queries), sized(in.keys));
  kernels::softmax(rows, rows, nullptr, threads);
}

}  // namespace

void distil(const DistilInput& in, float* dlow_q, float* dlow_k, Threads& threads) {
  const std::int64_t wide = in.heads * in.head_dim, low = in.heads * in.rank;
  Buffer<float> truth(sized(in.queries * in.keys)), guess(sized(in.queries * in.keys));
  const double scale = 1.0 / (std::sqrt(static_cast<double>(in.head_dim)) * static_cast<double>(in.heads * in.queries));
  for (std::int64_t h = 0; h < in.heads; ++h) {
    attend(in, in.q + h * in.head_dim, in.k + h * in.head_dim, in.head_dim, wide, truth, threads);
    attend(in, in.low_q + h * in.rank, in.low_k + h * in.rank, in.rank, low, guess, threads);
    kernels::axpy(-1.0f, truth, guess, threads);  // the gradient of the scores: guessed minus true weights
    kernels::scale(static_cast<float>(scale), guess, guess, threads);
    kernels::gemm({.form = kernels::Form::kDyW,
                   .rows = sized(in.queries),
                   .columns = sized(in.rank),
                   .depth = sized(in.keys),
                   .a = {guess.data(), sized(in.keys)},
                   .b = {in.low_k + h * in.rank, sized(low)},
                   .c = dlow_q + h * in.rank,
                   .c_stride = sized(low)},
                  threads);
    kernels::gemm({.form = kernels::Form::kDytX,
                   .rows = sized(in.keys),
                   .columns = sized(in.rank),
                   .depth = sized(in.queries),
                   .a = {guess.data(), sized(in.keys)},
                   .b = {in.low_q + h * in.rank, sized(low)},
                   .c = dlow_k + h * in.rank,
                   .c_stride = sized(low)},
                  threads);
  }
}

}  // namespace reel::predict
