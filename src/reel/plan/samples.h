// Masks to try plans on: what is published of the sparsity of video models, and drawn ones of the same kinds.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/lists/key_lists.h"

namespace reel::plan {

using Mask = std::vector<std::uint8_t>;  // [heads][rows][columns] of blocks

// Densities of heads, drawn from Beta(1.2, 2.2): most are sparse, a few nearly dense.
std::vector<double> beta_densities(int heads, std::uint64_t seed);

// Shares of keys of the 16 heads of a block of DSV, and of the 32 layers of its 2.7B model: 1 minus the sparsities in
// its artifact (arXiv 2502.07590).
std::vector<double> dsv_densities();
std::vector<double> dsv_layer_densities();

// Heads of such densities, spread evenly over 16 x 64 blocks: a step is a thousandth.
lists::KeyLists lists_of_densities(const std::vector<double>& densities);

enum class Kind { kBanded, kGlobal, kPeriodic, kClustered, kMixed };

// Square masks like those of video models: bands of different width, columns that everybody looks at, periods (the same
// place in other frames), clusters of busy queries; mixed: each head is of another kind. `drift` from 0 to 1 takes
// every head once through its range of sizes, slowly.
lists::KeyLists video_lists(Kind kind, int heads, int blocks, std::uint64_t seed, double drift = 0);

}  // namespace reel::plan
