// What the attention scores of one layer say, query by query, from some of its queries; nothing of size tokens x tokens
// is kept. Scores are softmax weights over all keys.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"

namespace reel::predict {

struct LayerInput {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  // [tokens][heads][head_dim]; without v there are no errors of outputs.
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  std::array<std::int64_t, 3> grid{};
  std::span<const std::int32_t> raster;  // place of each token in the grid, in raster order
  std::int64_t queries = 1;              // that are looked at, of each head, at different tokens; at most all
  double mass = 0.9;                     // that the critical keys of a query carry: the heaviest, as few as do
  std::uint64_t seed = 0;
};

// Sums over the queries whose scores are finite.
struct LayerScores {
  // Bin i of a histogram holds scores from 10^((i - bins) / bins_per_decade) on; the first one those below, too.
  static constexpr int kBins = 40, kBinsPerDecade = 5;
  static constexpr std::array<double, 4> kKept = {0.05, 0.1, 0.2, 0.5};  // shares of keys whose output is looked at
  static constexpr double kFew = 0.1;
  // Shares of keys of the cumulative curve.
  static constexpr std::array<double, 11> kCurve = {0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1};

  std::int64_t queries = 0;
  double needed = 0;              // critical keys, as a share
  std::vector<double> histogram;  // share of the query's scores in each bin
  double concentrated = 0;        // queries whose heaviest kFew of the keys carry the mass
  std::vector<double> carried;    // mass of the heaviest keys, as kCurve
  // |output over some keys - output| / |output|, as kKept: over the heaviest, and over as many that were drawn.
  std::vector<double> error_critical, error_random;
  std::vector<double> critical_at, all_at;  // share of keys at distances up to 0, in (0, 1], in (1, 2], ...

  void add(const LayerScores& other);
};

LayerScores look_at_scores(const LayerInput& in, Threads& threads);

// The weights of the softmax over all keys for the tokens `rows`: [rows.size()][tokens].
Buffer<float> score_rows(const LayerInput& in, std::int64_t head, std::span<const std::int32_t> rows, Threads& threads);

}  // namespace reel::predict
