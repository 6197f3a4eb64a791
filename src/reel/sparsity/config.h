// The [sparsity] section of a run file.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reel/base/sized.h"
#include "reel/files/settings.h"
#include "reel/lists/controls.h"

namespace reel::sparsity {

struct SparsityConfig {
  std::string mode = "off";
  double mass = 0.9;
  double keys = 0;
  std::vector<double> layer_keys;
  std::string predictor = "qk";
  std::int64_t rank = 0, samples = 0;
  std::vector<std::int64_t> group = {4, 4, 4};
  std::vector<std::int64_t> keep;
  std::vector<std::int64_t> dense_layers;
  std::int64_t profile_every = 25;
  std::int64_t start = 0;
  double break_even = 0, worth = 3;

  bool on() const { return mode != "off"; }
  // The share of keys that the run file asks for in this layer; 0: as many as the mass needs.
  double asked_keys(std::int64_t layer) const { return layer_keys.empty() ? keys : layer_keys[sized(layer)]; }
  bool always_dense(std::int64_t layer) const {
    return std::find(dense_layers.begin(), dense_layers.end(), layer) != dense_layers.end();
  }
  double control_keys() const { return keys > 0 ? keys : lists::kControlKeys; }  // of modes that find no keys
  std::array<std::int64_t, 3> tile() const { return {group[0], group[1], group[2]}; }
};

void visit(Settings& settings, SparsityConfig& config);

}  // namespace reel::sparsity
