// What the tests of predictors share: a layer as a video transformer has it, on clips with things in them. For tests
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "reel/base/random.h"
#include "reel/kernels/gemm.h"
#include "reel/kernels/norm.h"
#include "reel/predict/predictor.h"

namespace reel::predict::testing {

// Mean over queries of one head, or over all heads.
struct Found {
  double recall = 0;  // share of the heaviest tenth of the keys that is found
  double mass = 0;    // that the tenth that is chosen carries, over what the heaviest tenth carries
};

class WanLayer {
 public:
  static constexpr std::int64_t kGrid = 8, kTokens = kGrid * kGrid * kGrid;

  // The last `still` heads are not turned. W_k is close to W_q, as training makes them where attention finds its like.
  WanLayer(std::int64_t heads, std::int64_t head_dim, std::int64_t still, std::uint64_t seed = 1)
      : shape{1, heads, head_dim} {
    const std::int64_t width = heads * head_dim;
    const auto filled = [&](std::int64_t count, double mean, double scale, std::uint64_t stream) {
      std::vector<float> values(static_cast<std::size_t>(count));
      Random(seed, stream).fill_normal(values);
      for (float& value : values) value = static_cast<float>(mean + scale * static_cast<double>(value));
      return values;
    };
    const double size = 1 / std::sqrt(static_cast<double>(width));
    wq = filled(width * width, 0, size, 1);
    wk = filled(width * width, 0, 0.3 * size, 2);
    for (std::size_t i = 0; i < wk.size(); ++i) wk[i] += wq[i];
    bk = bq = filled(width, 0, 0.3, 3);
    norm_q = filled(width, 1.5, 0.3, 4);
    norm_k = filled(width, 1.5, 0.3, 5);
    angles = kernels::rope_3d(kGrid, kGrid, kGrid, head_dim, 100);
    angles->heads = heads - still;
    embedding_.resize(static_cast<std::size_t>(kCode * width));
    Random(seed, 6).fill_normal(embedding_);
  }

  struct Clip {
    Origin origin;
    std::vector<float> hidden, q, k;
    Seen seen;
  };
  // Twelve things lie about in space and time, each a code; a token shows the nearest, and has something of its own.
  // What one token holds for `spoilt` is not a number.
  std::unique_ptr<Clip> clip(std::uint64_t number, std::int64_t batch = 1, bool spoilt = false) {
    const std::int64_t width = shape.heads * shape.head_dim;
    std::vector<float> x(static_cast<std::size_t>(batch * kTokens * width));
    for (std::int64_t b = 0; b < batch; ++b) {
      const Random random(77 + number, static_cast<std::uint64_t>(b));
      std::vector<float> places(3 * kThings), codes(kThings * kCode);
      for (std::size_t i = 0; i < places.size(); ++i) places[i] = kGrid * random.uniform(i);
      for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = random.normal(1000 + i);
      for (std::int64_t t = 0; t < kTokens; ++t) {
        const std::int64_t at[3] = {t / (kGrid * kGrid), t / kGrid % kGrid, t % kGrid};
        std::size_t nearest = 0;
        double least = 1e9;
        for (std::size_t thing = 0; thing < kThings; ++thing) {
          double distance = 0;
          for (std::size_t axis = 0; axis < 3; ++axis) {
            const double away = static_cast<double>(at[axis]) - static_cast<double>(places[thing * 3 + axis]);
            distance += away * away;
          }
          if (distance < least) least = distance, nearest = thing;
        }
        for (std::int64_t c = 0; c < kCode; ++c) {
          const float code = codes[nearest * kCode + static_cast<std::size_t>(c)] +
                             0.7f * random.normal(2000 + static_cast<std::uint64_t>(t * kCode + c));
          for (std::int64_t j = 0; j < width; ++j) {
            x[static_cast<std::size_t>((b * kTokens + t) * width + j)] +=
                code * embedding_[static_cast<std::size_t>(c * width + j)];
          }
        }
      }
    }
    auto clip = std::make_unique<Clip>();
    if (spoilt) x[5] = NAN;
    clip->hidden = x;
    const std::size_t rows = static_cast<std::size_t>(batch * kTokens), columns = static_cast<std::size_t>(width);
    kernels::layer_norm({x.data(), rows, columns}, nullptr, nullptr, 1e-6f, {clip->hidden.data(), rows, columns},
                        nullptr, nullptr, threads);
    clip->origin = {
        clip->hidden.data(), width, {wq.data(), bq.data(), norm_q}, {wk.data(), bk.data(), norm_k}, angles.get()};
    clip->q = numbers(clip->origin.q, clip->hidden);
    clip->k = numbers(clip->origin.k, clip->hidden);
    clip->seen = {0, batch, kTokens, clip->q.data(), clip->k.data(), &clip->origin};
    return clip;
  }

  // How well a predictor finds the keys of every eighth query.
  Found found(const Predictor& predictor, const Clip& clip) {
    std::vector<std::int64_t> heads(static_cast<std::size_t>(shape.heads));
    std::iota(heads.begin(), heads.end(), 0);
    std::vector<std::int32_t> rows;
    for (std::int32_t t = 3; t < kTokens; t += 8) rows.push_back(t);
    std::int64_t rank = 0;
    for (const std::int64_t h : heads) rank = std::max(rank, predictor.rank(0, h));
    std::vector<float> low_q(heads.size() * rows.size() * static_cast<std::size_t>(rank));
    std::vector<float> low_k(heads.size() * static_cast<std::size_t>(kTokens * rank));
    predictor.predict(clip.seen, heads, rows, rank, low_q.data(), low_k.data(), threads);
    Found mean;
    const double count = static_cast<double>(heads.size() * rows.size());
    const std::int64_t width = shape.heads * shape.head_dim;
    for (const std::int64_t h : heads) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const float* q = clip.seen.q + rows[i] * width + h * shape.head_dim;
        const float* low =
            low_q.data() + (static_cast<std::size_t>(h) * rows.size() + i) * static_cast<std::size_t>(rank);
        std::vector<double> truth, guess;
        for (std::int64_t t = 0; t < kTokens; ++t) {
          truth.push_back(dot(q, clip.seen.k + t * width + h * shape.head_dim, shape.head_dim));
          guess.push_back(dot(low, low_k.data() + (h * kTokens + t) * rank, rank));
        }
        const Found one = compare(truth, guess, 1 / std::sqrt(static_cast<double>(shape.head_dim)));
        mean.recall += one.recall / count;
        mean.mass += one.mass / count;
      }
    }
    return mean;
  }

  ModelHeads shape;
  Threads threads{2};
  std::vector<float> wq, bq, norm_q, wk, bk, norm_k;
  std::shared_ptr<kernels::RopeAngles> angles;

 private:
  static constexpr std::int64_t kCode = 24;
  static constexpr std::size_t kThings = 12;

  // q or k of all tokens.
  std::vector<float> numbers(const Projection& side, const std::vector<float>& hidden) {
    const std::size_t width = static_cast<std::size_t>(shape.heads * shape.head_dim), rows = hidden.size() / width;
    std::vector<float> y(hidden.size());
    kernels::gemm({.form = kernels::Form::kXWt,
                   .rows = rows,
                   .columns = width,
                   .depth = width,
                   .a = {hidden.data(), width},
                   .b = {side.weight, width},
                   .c = y.data(),
                   .c_stride = width,
                   .bias = side.bias},
                  threads);
    const kernels::Rows all(y.data(), rows, width);
    kernels::rms_norm(all, side.norm.data(), 1e-6f, all, nullptr, threads);
    const auto turned = static_cast<std::size_t>(angles->heads);
    const kernels::Rows first(y.data(), rows, turned * static_cast<std::size_t>(shape.head_dim), width);
    if (turned > 0) kernels::rope(first, turned, angles->table(), angles->pairing, first, threads);
    return y;
  }

  static double dot(const float* a, const float* b, std::int64_t n) { return std::inner_product(a, a + n, b, 0.0); }
  static std::vector<std::size_t> heaviest(const std::vector<double>& scores) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() + 9) / 10);
    std::nth_element(order.begin(), middle, order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    return {order.begin(), middle};
  }
  static Found compare(const std::vector<double>& truth, const std::vector<double>& guess, double scale) {
    const std::vector<std::size_t> best = heaviest(truth), chosen = heaviest(guess);
    const double most = *std::max_element(truth.begin(), truth.end());
    const auto mass = [&](const std::vector<std::size_t>& keys) {
      double sum = 0;
      for (const std::size_t key : keys) sum += std::exp(scale * (truth[key] - most));
      return sum;
    };
    double hits = 0;
    for (const std::size_t key : chosen) hits += std::find(best.begin(), best.end(), key) != best.end() ? 1 : 0;
    return {hits / static_cast<double>(best.size()), mass(chosen) / mass(best)};
  }

  std::vector<float> embedding_;
};

}  // namespace reel::predict::testing
