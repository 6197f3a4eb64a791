#include "reel/predict/judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"

namespace reel::predict {

namespace {

constexpr float kFirst = 4096;  // above every weight: a group has at most 1,024 queries, and each gives a key 1 at most

// Puts the tiles of `size` keys that are held before everything else; returns how many these are.
std::size_t put_first(std::span<float> order, std::span<const std::int32_t> held, std::int32_t size) {
  for (const std::int32_t key : held) order[sized(key / size)] = kFirst;
  return sized(std::count(order.begin(), order.end(), kFirst));
}

}  // namespace

std::size_t keys_of_share(double share, std::int64_t keys) {
  const double all = static_cast<double>(keys);
  return sized(std::clamp(std::ceil(share * all), 1.0, all));
}

Judge::Judge(const ScoreInput& truth, std::vector<std::int32_t> held, Threads& threads)
    : held_(std::move(held)), rows_(softmax_rows(truth, threads)), finite_(!kernels::any_not_finite(rows_, threads)) {
  if (finite_) weights_ = group_weights(rows_, truth.keys, threads);
}

double Judge::list_size(double share) const {
  return static_cast<double>(std::max(held_.size(), keys_of_share(share, static_cast<std::int64_t>(weights_.size()))));
}

double Judge::recall(std::span<const float> order, double share) const {
  return predict::recall(weights_, order, sized(list_size(share)));
}

double Judge::covered(std::span<const float> order, double share) const {
  std::vector<float> list(order.begin(), order.end());
  put_first(list, held_, 1);
  return mass_of_keys(weights_, list, list_size(share));
}

double Judge::needed(std::span<const float> order, double mass) const {
  std::vector<float> list(order.begin(), order.end());
  const auto held = static_cast<double>(put_first(list, held_, 1));
  return std::max(0.0, keys_for_mass(weights_, list, mass) - held) / static_cast<double>(weights_.size());
}

double Judge::needed_tiles(std::span<const float> order, double mass) const {
  std::vector<float> tiles = block_sums(order);
  const auto held = static_cast<double>(put_first(tiles, held_, lists::kTileKeys));
  return lists::kTileKeys * std::max(0.0, keys_for_mass(block_sums(weights_), tiles, mass) - held) /
         static_cast<double>(weights_.size());
}

}  // namespace reel::predict
