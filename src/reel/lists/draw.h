// Drawing the entries of a list at random.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/random.h"

namespace reel::lists {

// Puts into `list` the entries `held` and others of [0, entries), every choice of them equally likely, until it has
// `size` entries: selection sampling (Knuth, algorithm S), which is ascending without sorting. `held` ascends and may
// be more than `size`; `draw` counts the random numbers taken.
inline void draw_list(const Random& random, std::uint64_t& draw, std::int64_t entries, std::int64_t size,
                      std::span<const std::int32_t> held, std::vector<std::int32_t>& list) {
  const auto kept = static_cast<std::int64_t>(held.size());
  std::int64_t wanted = size - kept, others = entries - kept;
  auto next = held.begin();
  list.clear();
  for (std::int64_t entry = 0; entry < entries && (wanted > 0 || next != held.end()); ++entry) {
    if (next != held.end() && *next == entry) {
      ++next;
      list.push_back(static_cast<std::int32_t>(entry));
    } else if (wanted > 0 &&
               static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(others--))) < wanted) {
      list.push_back(static_cast<std::int32_t>(entry));
      --wanted;
    }
  }
}

}  // namespace reel::lists
