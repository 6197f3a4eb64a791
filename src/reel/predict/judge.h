// The judge of predictors: what an order of the keys is worth for one group of queries, against the true scores. It
// judges in training (profile.h), the predictors of a run (found_keys.h) and those of given q and k (study/study.h).
//
// The weight of a key for a group is the sum of the softmax rows of its queries. An order is given by a positive number
// for each key, the first key having the largest. Lists hold some keys in any case, then take keys in that order. A
// list of a share of the keys has so many keys, rounded up, and at least one and those that it holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/predict/weights.h"

namespace reel::predict {

// The number of keys that are `share` of all.
std::size_t keys_of_share(double share, std::int64_t keys);

class Judge {
 public:
  // The queries of `truth` are those of the group; a group has at most 1,024. `held` are the keys that its lists hold
  // in any case, each of them once.
  Judge(const ScoreInput& truth, std::vector<std::int32_t> held, Threads& threads);

  bool finite() const { return finite_; }                    // else there are no weights, and nothing can be judged
  const Buffer<float>& rows() const { return rows_; }        // true softmax rows: [queries][keys]
  const Buffer<float>& weights() const { return weights_; }  // true weights, which are the best order

  double recall(std::span<const float> order, double share) const;   // of the heaviest keys, found by the order alone
  double covered(std::span<const float> order, double share) const;  // mass of the list
  // Keys on top of those held until the list carries the mass, as a share of all; the same in whole tiles.
  double needed(std::span<const float> order, double mass) const;
  double needed_tiles(std::span<const float> order, double mass) const;

 private:
  double list_size(double share) const;

  std::vector<std::int32_t> held_;
  Buffer<float> rows_, weights_;
  bool finite_;
};

}  // namespace reel::predict
