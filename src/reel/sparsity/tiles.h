// The tokens of a clip in the order of tiles, and what follows from it for every list.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "reel/lists/order.h"
#include "reel/sparsity/config.h"

namespace reel::sparsity {

class Tiles {
 public:
  // Tiles do not reach over the frames `cut_at`.
  Tiles(const SparsityConfig& config, const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cut_at);

  const lists::TokenOrder order;
  const std::vector<std::int64_t> cuts;
  const std::vector<std::int32_t> always;  // tokens that every list holds in addition to its own tile
  const double held_share;                 // these and the own tile, of all keys: mean over groups
  const double held_tiles_share;           // the same in whole tiles of 64 keys

  // The queries of every group that are scored where each group scores this many (lists::sample_queries).
  const std::vector<std::int32_t>& sampled(std::int64_t samples);

 private:
  std::map<std::int64_t, std::vector<std::int32_t>> sampled_;
};

}  // namespace reel::sparsity
