// Lists of keys that need no scores (the controls), and what all lists share: a budget of keys, and the tokens that
// they hold whatever the budget is, which are those of the group's own tile and `always` (ascending).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/lists/key_lists.h"
#include "reel/lists/order.h"

namespace reel::lists {

constexpr double kControlKeys = 0.1;  // share of keys of the controls where none is given

// How many of n entries a share of them is: never more than it.
std::int64_t budget_of(double share, std::int64_t n);

// What every list of a group holds, ascending: the tokens of its tile, which are [first, end) or those of group g, and
// those of `always`.
std::vector<std::int32_t> held_tokens(std::int64_t first, std::int64_t end, std::span<const std::int32_t> always);
std::vector<std::int32_t> held_tokens(const TokenOrder& order, std::int64_t g, std::span<const std::int32_t> always);

// The share of all keys that these are on average over the groups, where entries are `granularity` tokens.
double held_share(const TokenOrder& order, std::span<const std::int32_t> always, int granularity);

// Takes batch item b from `others` where others_of[b] is set, else from `lists`. Both have the same heads, groups and
// granularity.
KeyLists mixed_items(const KeyLists& lists, const KeyLists& others, std::span<const std::uint8_t> others_of);

// The tokens of some frames, in tile order, ascending.
std::vector<std::int32_t> tokens_of_frames(const TokenOrder& order, std::span<const std::int64_t> frames);

// All of the following have budget_of(share, tokens) tokens a list, or what every list holds where that is more.
// The tokens nearest to the middle of the tile, the same for every head.
KeyLists window_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                      std::span<const std::int32_t> always = {});
// Drawn for every list: the lists of `batch` items, where `before` items are drawn before them.
KeyLists random_own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                          std::uint64_t seed, std::span<const std::int32_t> always = {}, std::int64_t before = 0);
// What every list holds, and nothing else.
KeyLists own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads,
                   std::span<const std::int32_t> always = {});

}  // namespace reel::lists
