// How sparse one head of given q and k is, and how well its keys are found: from sampled queries and query groups, in
// memory that grows with tokens x group, never with tokens x tokens.
//
// Queries of a group share one list of keys (order.h). The weight of a key for a group is the mean over the group's
// queries of its softmax weight. A predictor puts the keys of a group in an order; its list of a size are the first of
// that order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reel/base/threads.h"
#include "reel/lists/order.h"
#include "reel/predict/layer_scores.h"
#include "reel/study/hidden_fit.h"

namespace reel::study {

struct StudyInput {
  const lists::TokenOrder* order = nullptr;
  std::int64_t head_dim = 0;
  // [tokens][head_dim], tokens in the order of `order`; v may be null.
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const LowPair* hidden = nullptr;        // the numbers of the predictor `hidden`; may be null
  double mass = 0.9;                      // that keys shall carry
  double size = 0.1;                      // of the lists that are compared, as a share of all keys
  std::int64_t groups = 4, queries = 16;  // that are looked at
  std::uint64_t seed = 0;
};

// All are means over the groups looked at; shares are of all keys.
struct PredictorStudy {
  std::string name;
  double needed = 0;            // keys in its order until the mass is reached
  double covered = 0;           // mass of its list of the size asked for
  double recall = 0;            // share of the best list of that size that it finds
  std::vector<double> carried;  // mass of its lists, as HeadStudy::kShares
  double error = 0;             // |output over its list - output| / |output|, mean over queries; NaN without v
};

struct BlockStudy {
  int keys = 1;  // of a block of consecutive keys (in the order of `order`)
  double covered = 0, needed = 0;
};

struct HeadStudy {
  static constexpr std::array<double, 7> kShares = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5};
  static constexpr std::array<int, 3> kBlocks = {1, 64, 128};

  predict::LayerScores queries;  // query by query (layer_scores.h)
  double overlap = 0;            // critical keys of a query that are critical for the first query of its group, too
  // What scores of the same spread would need if they were Gaussian and had no structure: for N(0, s^2) the heaviest
  // keys that carry m are a share Phi(Phi^-1(m) - s). Far fewer than that is structure.
  double spread = 0, gaussian = 0;
  // true: the best lists there are. middle: by the true scores of the middle query of the group alone. rank r: scores
  // of the closed form, all queries. hidden: where given. nearest: by distance from the middle of the tile. random.
  std::vector<PredictorStudy> predictors;
  std::vector<BlockStudy> blocks;  // true weights, the best blocks of each kind at equal budget

  const PredictorStudy& predictor(const std::string& name) const;
};

// Throws Error where the scores are beyond f32.
HeadStudy study_head(const StudyInput& in, Threads& threads);

// The share of keys that carries the mass m, heaviest first, when scores are N(0, spread^2).
double gaussian_keys(double mass, double spread);

}  // namespace reel::study
