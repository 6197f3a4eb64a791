// The order of tokens: 3-D tiles, so that neighbours in space and time are consecutive and share a list of keys.
//
// The clip's grid of tokens (frames x rows x columns) is cut into tiles of the wanted size; those at the far edges are
// short, never padded. Tokens are put in order tile by tile (tiles in raster order, tokens of a tile in raster order);
// a tile is a query group. The order is chosen once, at the model's entry; positions travel with the tokens. Tiles do
// not reach over a cut between frames (given frames on one side, frames to denoise on the other).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace reel::lists {

struct TokenOrder {
  std::array<std::int64_t, 3> grid{};
  std::vector<std::int32_t> raster;        // token i in tile order is token raster[i] in raster order
  std::vector<std::int32_t> place;         // the inverse
  std::vector<std::int32_t> group_starts;  // tiles + 1, in tile order

  std::int64_t tokens() const { return static_cast<std::int64_t>(raster.size()); }
  std::int64_t groups() const { return static_cast<std::int64_t>(group_starts.size()) - 1; }
  std::array<std::int64_t, 3> position(std::int64_t token) const;  // of a token in tile order: frame, row, column
};

std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& permutation);

// `cuts`: frames before which a new row of tiles begins, ascending.
TokenOrder tile_order(const std::array<std::int64_t, 3>& grid, const std::array<std::int64_t, 3>& tile,
                      const std::vector<std::int64_t>& cuts = {});

// `samples` queries of every group, spread over its tile: groups() * samples tokens in tile order. One sample is the
// middle of the tile; more are taken from the diagonals (frame + row + column) % 4 = 0, 2, 1, 3 in turn, since every
// n-th token in raster order is one face of the cube (covered mass .668 against .755 for 16 of 64). Groups with fewer
// tokens repeat theirs.
std::vector<std::int32_t> sample_queries(const TokenOrder& order, std::int64_t samples);

// The squared distance of every token, in tile order, to the middle of a tile: the mean of its tokens' positions.
std::vector<double> squared_distances(const TokenOrder& order, std::int64_t group);

// `count` groups (all where there are fewer), one drawn from each of as many equal parts of the order, ascending.
std::vector<std::int64_t> spread_groups(const TokenOrder& order, std::int64_t count, std::uint64_t seed);

}  // namespace reel::lists
