#include "reel/sparsity/tiles.h"

#include "reel/lists/controls.h"

namespace reel::sparsity {

Tiles::Tiles(const SparsityConfig& config, const std::array<std::int64_t, 3>& grid,
             const std::vector<std::int64_t>& cut_at)
    : order(lists::tile_order(grid, config.tile(), cut_at)),
      cuts(cut_at),
      always(lists::tokens_of_frames(order, config.keep)),
      held_share(lists::held_share(order, always, 1)),
      held_tiles_share(lists::held_share(order, always, lists::kTileKeys)) {}

const std::vector<std::int32_t>& Tiles::sampled(std::int64_t samples) {
  auto& tokens = sampled_[samples];
  if (tokens.empty()) tokens = lists::sample_queries(order, samples);
  return tokens;
}

}  // namespace reel::sparsity
