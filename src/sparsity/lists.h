// Lists of keys that need no scores (the controls), and what all lists share: the group's own tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/key_lists.h"
#include "sparsity/order.h"

namespace reel::sparsity {

// The lists of `chosen` (one for each (batch, head, group), as attention::select gives them) with the tokens of the own
// group and those of `always` (ascending) added; heads that are dense in `chosen` stay so.
attention::KeyLists with_own_tile(const attention::KeyLists& chosen, std::span<const std::int32_t> always = {});

// The tokens of some frames, in tile order, ascending.
std::vector<std::int32_t> tokens_of_frames(const TokenOrder& order, std::span<const std::int64_t> frames);

// For every head the same lists: the own tile and the tokens nearest to the middle of the tile, `share` of all in sum.
attention::KeyLists window_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share);
// Own tile and random tokens.
attention::KeyLists random_own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                                     std::uint64_t seed);
// The own tile alone.
attention::KeyLists own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads);

}  // namespace reel::sparsity
