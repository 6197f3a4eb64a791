// What one thread selects at a time, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "reel/attention/blocks.h"

namespace reel::attention {

// Groups [first, last) of one head.
struct SelectUnit {
  Rows<const float> q, k;
  std::size_t keys, rank, samples, granularity;
  float scale;
  std::size_t first, last;
  const std::int32_t* own;   // group_starts where lists hold the entries of their own queries, else null
  std::int32_t first_query;  // query i is key first_query + i
  std::span<const std::int32_t> always;
  const std::int64_t* offsets;  // of the lists of this head, in `out`
  std::int32_t* out;
};

// Entries [first, second) of the queries of group g.
inline std::pair<std::int32_t, std::int32_t> own_entries(const std::int32_t* group_starts, std::int32_t first_query,
                                                         std::size_t g, std::size_t granularity) {
  const auto size = static_cast<std::int32_t>(granularity);
  return {(first_query + group_starts[g]) / size, (first_query + group_starts[g + 1] - 1) / size + 1};
}

}  // namespace reel::attention
