#include "reel/predict/qk_predictor.h"

#include <algorithm>
#include <cmath>

#include "reel/base/buffer.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gemm.h"

namespace reel::predict {

namespace {

constexpr double kDecay = 0.8;
constexpr std::int64_t kMostRank = 32;
constexpr double kKeptSpectrum = 0.98;

// Sums over `count` rows of x x^T and of x, one after the other.
void add_sums(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t dim, std::vector<double>& out,
              Threads& threads) {
  Buffer<float> product(sized(dim * dim)), sum(sized(dim));
  kernels::gemm({.form = kernels::Form::kDytX,
                 .rows = sized(dim),
                 .columns = sized(dim),
                 .depth = sized(count),
                 .a = {rows, sized(stride)},
                 .b = {rows, sized(stride)},
                 .c = product.data(),
                 .c_stride = sized(dim)},
                threads);
  kernels::column_sums({rows, sized(count), sized(dim), sized(stride)}, sum.data(), kernels::Write::kOverwrite,
                       threads);
  out.insert(out.end(), product.begin(), product.end());
  out.insert(out.end(), sum.begin(), sum.end());
}

Moments moments_of(std::span<const double> sums, std::int64_t count, std::int64_t dim) {
  Moments moments;
  moments.dim = dim;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    (i < sized(dim * dim) ? moments.product : moments.mean).push_back(sums[i] / static_cast<double>(count));
  }
  return moments;
}

bool finite(const Moments& moments) {
  return std::all_of(moments.product.begin(), moments.product.end(), [](double x) { return std::isfinite(x); });
}

// Checkpoints keep f32: what is kept is what is used. Moments that a damaged file left are begun anew.
void mix(Moments& into, const Moments& fresh) {
  if (!finite(into)) into = Moments();
  into.mix(fresh, kDecay);
  for (double& value : into.product) value = static_cast<float>(value);
  for (double& value : into.mean) value = static_cast<float>(value);
}

// out [count][rank] = rows [count][dim] times a projection [dim][low.rank]; the rest of each row is left alone.
void project(const float* rows, std::int64_t stride, std::int64_t count, const std::vector<float>& projection,
             const LowRank& low, float* out, std::int64_t rank, Threads& threads) {
  kernels::gemm({.form = kernels::Form::kDyW,
                 .rows = sized(count),
                 .columns = sized(low.rank),
                 .depth = sized(low.dim),
                 .a = {rows, sized(stride)},
                 .b = {projection.data(), sized(low.rank)},
                 .c = out,
                 .c_stride = sized(rank)},
                threads);
}

}  // namespace

QkPredictor::QkPredictor(const ModelHeads& shape, std::int64_t rank)
    : Predictor(shape), rank_(rank), heads_(sized(shape.layers * shape.heads)), known_(sized(shape.layers), 0.0f) {}

void QkPredictor::refresh(Head& head) const {
  head.low = closed_form(head.q, head.k, rank_ > 0 ? rank_ : std::min(kMostRank, shape_.head_dim));
  if (rank_ > 0) return;
  const std::int64_t rank = rank_for(head.low.spectrum, kKeptSpectrum, head.low.rank);
  if (rank < head.low.rank) head.low = closed_form(head.q, head.k, rank);
}

std::vector<double> QkPredictor::sums(const ClipHeads& clip, std::int64_t tokens, Threads& threads) const {
  const std::int64_t dim = shape_.head_dim;
  std::vector<double> sums;
  for (std::int64_t h = 0; h < clip.count; ++h) {
    for (const float* x : {clip.q, clip.k}) add_sums(x + h * dim, clip.count * dim, tokens, dim, sums, threads);
  }
  return sums;
}

void QkPredictor::learn_from(const Lesson& lesson, Threads&) {
  if (!lesson.profiled) return;  // one clip is enough for an average over steps
  const std::int64_t dim = shape_.head_dim, each = sums_per_head() / 2;
  std::vector<Moments> fresh;
  for (std::int64_t i = 0; i < 2 * shape_.heads; ++i) {
    fresh.push_back(
        moments_of(std::span<const double>(lesson.sums).subspan(sized(i * each), sized(each)), lesson.tokens, dim));
  }
  if (!std::all_of(fresh.begin(), fresh.end(), finite)) return;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    Head& head = heads_[sized(lesson.layer * shape_.heads + h)];
    mix(head.q, fresh[sized(2 * h)]);
    mix(head.k, fresh[sized(2 * h + 1)]);
    refresh(head);
  }
  known_[sized(lesson.layer)] = 1;
}

void QkPredictor::predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
                          std::int64_t rank, float* low_q, float* low_k, Threads& threads) const {
  const std::int64_t dim = shape_.head_dim, width = shape_.heads * dim;
  const auto scored = static_cast<std::int64_t>(rows.size());
  Buffer<float> gathered(sized(scored * dim));
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    for (const std::int64_t h : heads) {
      const LowRank& low = of(seen.layer, h).low;
      const float* q = seen.q + b * seen.tokens * width + h * dim;
      const float* k = seen.k + b * seen.tokens * width + h * dim;
      if (low.rank < rank) {
        std::fill_n(low_q, scored * rank, 0.0f);
        std::fill_n(low_k, seen.tokens * rank, 0.0f);
      }
      for (std::int64_t i = 0; i < scored; ++i) {
        std::copy_n(q + rows[sized(i)] * width, dim, gathered.data() + i * dim);
      }
      project(gathered.data(), dim, scored, low.q, low, low_q, rank, threads);
      project(k, width, seen.tokens, low.k, low, low_k, rank, threads);
      low_q += scored * rank;
      low_k += seen.tokens * rank;
    }
  }
}

std::vector<Predictor::Saved> QkPredictor::save() const {
  const std::int64_t dim = shape_.head_dim;
  Saved moments{"moments", {shape_.layers, shape_.heads, 2, dim * dim + dim}, {}};
  for (const Head& head : heads_) {
    for (const Moments* each : {&head.q, &head.k}) {
      const std::size_t begin = moments.values.size();
      for (const double value : each->product) moments.values.push_back(static_cast<float>(value));
      for (const double value : each->mean) moments.values.push_back(static_cast<float>(value));
      moments.values.resize(begin + sized(dim * dim + dim), 0.0f);
    }
  }
  return {std::move(moments), {"moments_known", {shape_.layers}, known_}};
}

void QkPredictor::load(const SafetensorsFile& file) {
  const std::int64_t dim = shape_.head_dim;
  if (!file.contains("moments") ||
      file.info("moments").shape != std::vector<std::int64_t>{shape_.layers, shape_.heads, 2, dim * dim + dim}) {
    throw Error(file.name() + ": has no moments of q and k for this model",
                "the run file must describe the model and the sparsity.predictor of the checkpoint");
  }
  file.read_f32("moments_known", known_);
  const Buffer<float> moments = file.read_f32("moments");
  const float* at = moments.data();
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    for (Moments* each : {&heads_[i].q, &heads_[i].k}) {
      *each = Moments();
      each->dim = dim;
      each->product.assign(at, at + dim * dim);
      each->mean.assign(at + dim * dim, at + dim * dim + dim);
      at += dim * dim + dim;
    }
    if (known_[i / sized(shape_.heads)] != 0) {
      refresh(heads_[i]);
    } else {
      heads_[i] = Head();
    }
  }
}

}  // namespace reel::predict
