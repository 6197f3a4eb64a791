#include "reel/predict/hidden_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/kernels/adamw.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gather.h"
#include "reel/predict/distil.h"

namespace reel::predict {

namespace {

// A pass costs the map of the keys twice and the scores of these queries. Recall after 60 passes on clips of 512
// tokens, heads of 64, rank 32: 16 queries .83, 32 .85, 64 .86.
constexpr std::int64_t kLearntQueries = 32;
// In units of hidden_map.h. Recall after 60 passes, as above: .003 .81, .01 .84, .02 .85, .03 .84.
constexpr double kLearningRate = 0.02;
constexpr double kClip = 1.0;  // norms are 0.3 at first and 0.03 later
// Gradients are 1e-4 to 1e-3 where there is something to learn. AdamW would follow smaller ones as eagerly, which at
// full rank are roundings: with 1e-6 recall fell from 1 to .96 there, with 1e-4 it stays above .99.
constexpr double kEps = 1e-4;
// Clips differ: with the energies of the last one alone, looked at in every pass, pairs change from pass to pass and
// recall is .71 instead of .76 (heads of 32, rank 16).
constexpr float kEnergyDecay = 0.8f;

// For heads of 32 numbers, rank 16 finds .83 of the keys and rank 24 finds .92 (storyboard clips, 250 steps).
std::int64_t default_rank(std::int64_t head_dim) { return std::clamp<std::int64_t>(head_dim * 3 / 8 * 2, 2, 32); }

std::vector<std::int32_t> tokens_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> tokens(sized(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(first));
  return tokens;
}

// Some rows of x [tokens][width].
Buffer<float> gathered(const float* x, std::int64_t tokens, std::int64_t width, std::span<const std::int32_t> rows,
                       Threads& threads) {
  Buffer<float> out(rows.size() * sized(width));
  kernels::gather_rows({x, sized(tokens), sized(width)}, rows, {out.data(), rows.size(), sized(width)}, threads);
  return out;
}

}  // namespace

HiddenPredictor::HiddenPredictor(const ModelHeads& shape, std::int64_t rank, std::uint64_t seed)
    : Predictor(shape),
      rank_(rank == 0 ? default_rank(shape.head_dim) : std::min(rank + rank % 2, shape.head_dim)),
      width_(shape.heads * shape.head_dim),
      seed_(seed),
      layers_(sized(shape.layers)) {}

std::size_t HiddenPredictor::side_floats() const { return sized(shape_.heads * rank_ * (width_ + 2)); }

bool HiddenPredictor::fits(const Origin* origin) const { return origin != nullptr && origin->width == width_; }

HiddenMap HiddenPredictor::map(const Origin& origin, const Layer& layer, int side) const {
  return HiddenMap(side == 0 ? origin.q : origin.k, layer.picked, shape_,
                   std::span<const float>(layer.learnt).subspan(sized(side) * side_floats(), side_floats()));
}

// Queries spread over the clip, others in every pass.
std::vector<std::int32_t> HiddenPredictor::queries(int layer, std::int64_t tokens) const {
  const std::int64_t queries = std::min(kLearntQueries, tokens), updates = layers_[sized(layer)].updates;
  const Random random(seed_, static_cast<std::uint64_t>(layer));
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t first = i * tokens / queries, end = (i + 1) * tokens / queries;
    const std::uint64_t draw =
        random.below(static_cast<std::uint64_t>(updates * kLearntQueries + i), static_cast<std::uint64_t>(end - first));
    rows.push_back(static_cast<std::int32_t>(first + static_cast<std::int64_t>(draw)));
  }
  return rows;
}

Wanted HiddenPredictor::wants(const Origin* origin, int layer, std::int64_t tokens, bool profiled) const {
  if (!fits(origin)) return {};
  const std::vector<std::int32_t> all = tokens_from(0, tokens);
  return {.q = profiled || !knows(layer) ? all : queries(layer, tokens), .k = all, .hidden = all};
}

// From the first pass of a layer; what it was where something in it is not finite.
void HiddenPredictor::start(const Lesson& lesson, Layer& layer, Threads& threads) const {
  const std::size_t n = sized(shape_.heads * rank_), stride = sized(width_ + 2), tokens = sized(lesson.tokens);
  const kernels::RopeAngles* rope = lesson.origin->rope;
  for (const float* values : {lesson.q, lesson.k, lesson.hidden}) {
    if (kernels::any_not_finite({values, tokens * sized(width_)}, threads)) return;
  }
  Layer fresh;
  fresh.energies = energies(lesson.q, lesson.k, lesson.tokens, rope, shape_);
  fresh.picked = pick(fresh.energies, rope, shape_, rank_);
  fresh.learnt = Buffer<float>::zeros(2 * side_floats());
  fresh.first = Buffer<float>::zeros(2 * side_floats());
  fresh.second = Buffer<float>::zeros(2 * side_floats());
  for (std::size_t i = 0; i < 2 * n; ++i) fresh.learnt[(i + 1) * stride - 1] = 1;
  // The picked numbers are larger than those they stand for in the norm: a gain for each head makes up for it.
  const Turns turns = turns_of(rope, fresh.picked, shape_, tokens_from(0, lesson.tokens), threads);
  Buffer<float> y(tokens * n);
  for (int side = 0; side < 2; ++side) {
    HiddenMap::Kept kept;
    map(*lesson.origin, fresh, side).forward({lesson.hidden, tokens, sized(width_)}, turns, y.data(), kept, threads);
    const float* truth = side == 0 ? lesson.q : lesson.k;
    for (std::size_t h = 0; h < sized(shape_.heads); ++h) {
      double wanted = 0, got = 0;
      for (std::size_t i = h * sized(rank_); i < (h + 1) * sized(rank_); ++i) {
        const float* number = truth + h * sized(shape_.head_dim) + sized(fresh.picked[i]);
        for (std::size_t t = 0; t < tokens; ++t) {
          wanted += std::pow(static_cast<double>(number[t * sized(width_)]), 2);
          got += std::pow(static_cast<double>(y[t * n + i]), 2);
        }
      }
      const auto gain = static_cast<float>(got > 0 ? std::sqrt(wanted / got) : 1.0);
      if (!std::isfinite(gain)) return;
      for (std::size_t i = h * sized(rank_); i < (h + 1) * sized(rank_); ++i) {
        fresh.learnt[sized(side) * side_floats() + (i + 1) * stride - 1] = gain;
      }
    }
  }
  layer = std::move(fresh);
}

void HiddenPredictor::learn_from(const Lesson& lesson, Threads& threads) {
  if (!fits(lesson.origin)) return;
  Layer& layer = layers_[sized(lesson.layer)];
  if (!knows(lesson.layer)) start(lesson, layer, threads);
  if (!knows(lesson.layer)) return;

  const std::int64_t tokens = lesson.tokens;
  const std::vector<std::int32_t> rows = queries(lesson.layer, tokens);
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<std::int32_t> at = rows;  // of these in lesson.q
  if (!lesson.q_tokens.empty()) at = tokens_from(0, count);
  const Buffer<float> hidden_q = gathered(lesson.hidden, tokens, width_, rows, threads);
  const Buffer<float> true_q = gathered(lesson.q, lesson.q_tokens.empty() ? tokens : count, width_, at, threads);
  const kernels::ConstRows x_q(hidden_q.data(), rows.size(), sized(width_));
  const kernels::ConstRows x_k(lesson.hidden, sized(tokens), sized(width_));
  const kernels::RopeAngles* rope = lesson.origin->rope;
  const Turns turns_q = turns_of(rope, layer.picked, shape_, rows, threads);
  const Turns turns_k = turns_of(rope, layer.picked, shape_, tokens_from(0, tokens), threads);
  const HiddenMap map_q = map(*lesson.origin, layer, 0), map_k = map(*lesson.origin, layer, 1);
  HiddenMap::Kept kept_q, kept_k;
  Buffer<float> low_q(rows.size() * map_q.numbers()), low_k(sized(tokens) * map_k.numbers());
  map_q.forward(x_q, turns_q, low_q.data(), kept_q, threads);
  map_k.forward(x_k, turns_k, low_k.data(), kept_k, threads);

  Buffer<float> dlow_q(low_q.size()), dlow_k(low_k.size());
  distil({.heads = shape_.heads,
          .head_dim = shape_.head_dim,
          .rank = rank_,
          .queries = count,
          .keys = tokens,
          .q = true_q.data(),
          .k = lesson.k,
          .low_q = low_q.data(),
          .low_k = low_k.data()},
         dlow_q.data(), dlow_k.data(), threads);
  Buffer<float> gradient(2 * side_floats());
  const std::span<float> both = gradient;
  map_q.backward(x_q, turns_q, kept_q, dlow_q.data(), both.first(side_floats()), threads);
  map_k.backward(x_k, turns_k, kept_k, dlow_k.data(), both.last(side_floats()), threads);

  const double norm = std::sqrt(kernels::sum_squares(gradient, threads));
  if (!std::isfinite(norm)) return;
  kernels::adamw_step({.lr = kLearningRate,
                       .beta2 = 0.99,
                       .eps = kEps,
                       .grad_scale = norm > kClip ? kClip / norm : 1.0,
                       .step = ++layer.updates},
                      layer.learnt, gradient, layer.first, layer.second, threads);
  if (lesson.profiled) exchange(lesson, layer);
}

// Pairs by what they have come to count, on average: clips differ.
void HiddenPredictor::exchange(const Lesson& lesson, Layer& layer) const {
  const std::size_t stride = sized(width_ + 2);
  const std::vector<float> fresh = energies(lesson.q, lesson.k, lesson.tokens, lesson.origin->rope, shape_);
  if (!std::all_of(fresh.begin(), fresh.end(), [](float x) { return std::isfinite(x); })) return;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    layer.energies[i] = kEnergyDecay * layer.energies[i] + (1 - kEnergyDecay) * fresh[i];
  }
  // What was learnt for a pair that went is of no use to the one that came; but for the gain, which is the head's.
  for (const std::size_t place : pick_again(layer.energies, lesson.origin->rope, shape_, layer.picked)) {
    for (std::size_t at = place * stride; at < 2 * side_floats(); at += side_floats()) {
      std::fill_n(layer.learnt.data() + at, stride - 1, 0.0f);
      std::fill_n(layer.first.data() + at, stride, 0.0f);
      std::fill_n(layer.second.data() + at, stride, 0.0f);
    }
  }
}

void HiddenPredictor::predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
                              std::int64_t rank, float* low_q, float* low_k, Threads& threads) const {
  REEL_CHECK(fits(seen.origin) && knows(seen.layer) && rank >= rank_);
  const Layer& layer = layers_[sized(seen.layer)];
  for (int side = 0; side < 2; ++side) {
    std::vector<std::int32_t> tokens = tokens_from(seen.first, seen.tokens);
    if (side == 0) {
      tokens.assign(rows.begin(), rows.end());
      for (std::int32_t& token : tokens) token += static_cast<std::int32_t>(seen.first);
    }
    const Turns turns = turns_of(seen.origin->rope, layer.picked, shape_, tokens, threads);
    const HiddenMap low = map(*seen.origin, layer, side);
    float* out = side == 0 ? low_q : low_k;
    if (rank > rank_) std::fill_n(out, sized(seen.batch) * heads.size() * tokens.size() * sized(rank), 0.0f);
    Buffer<float> y(tokens.size() * low.numbers());
    HiddenMap::Kept kept;
    for (std::int64_t b = 0; b < seen.batch; ++b) {
      const float* x = seen.origin->hidden + b * seen.tokens * width_;
      const Buffer<float> some = side == 0 ? gathered(x, seen.tokens, width_, rows, threads) : Buffer<float>();
      low.forward({side == 0 ? some.data() : x, tokens.size(), sized(width_)}, turns, y.data(), kept, threads);
      for (const std::int64_t h : heads) {
        kernels::copy_rows({y.data() + h * rank_, tokens.size(), sized(rank_), low.numbers()},
                           {out, tokens.size(), sized(rank_), sized(rank)}, threads);
        out += tokens.size() * sized(rank);
      }
    }
  }
}

}  // namespace reel::predict
