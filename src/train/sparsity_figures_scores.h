// What the attention scores of one layer say, from some of its queries; nothing of size tokens x tokens is kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "report/sparsity_page.h"

namespace reel::train {

struct LayerInput {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // [tokens][heads][head_dim]
  std::array<std::int64_t, 3> grid{};
  std::span<const std::int32_t> raster;  // place of each token in the grid, in raster order
  std::int64_t queries = 1;              // that are looked at, of each head
  std::uint64_t seed = 0;
};

// Sums over the queries whose scores are finite. The numbers behind report::AttentionFigures, whose constants hold.
struct LayerScores {
  std::int64_t queries = 0;
  std::vector<double> histogram;  // share of the query's scores in each bin
  double concentrated = 0;        // queries whose heaviest kFew of the keys carry kMass
  std::vector<double> error_critical, error_random;
  std::vector<double> critical_at, all_at;  // share of keys at distances up to 0, in (0, 1], in (1, 2], ...

  void add(const LayerScores& other);
};

LayerScores look_at_scores(const LayerInput& in, Threads& threads);

// The weights of the softmax over all keys for the tokens `rows`: [rows.size()][tokens].
Buffer<float> score_rows(const LayerInput& in, std::int64_t head, std::span<const std::int32_t> rows, Threads& threads);

}  // namespace reel::train
