// Key lists as kernels over blocks want them: rows of queries, columns of keys, whole blocks.
//
// kBudget takes for every row the blocks with the largest share of listed pairs, until they hold as many pairs as the
// lists do (the last block may go beyond): equal work, some listed pairs lost and others gained. kCover takes every
// block with a listed pair: nothing lost, more work. Lists of tiles that are cut as the columns are give the same
// either way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/sized.h"
#include "reel/lists/key_lists.h"
#include "reel/study/chosen_lists.h"

namespace reel::study {

enum class Fit { kBudget, kCover };

struct BlockForm {
  std::int64_t batch = 1, heads = 0;
  std::vector<std::int32_t> row_starts, column_starts;  // tokens; blocks + 1 each
  std::vector<std::int64_t> offsets;                    // [batch][heads][rows] + 1
  std::vector<std::int32_t> columns;                    // of all rows, each ascending
  std::vector<std::uint8_t> full;                       // as columns: every pair of the block is listed

  std::int64_t rows() const { return static_cast<std::int64_t>(row_starts.size()) - 1; }
  std::int64_t column_count() const { return static_cast<std::int64_t>(column_starts.size()) - 1; }
  std::span<const std::int32_t> row(std::int64_t b, std::int64_t h, std::int64_t r) const {
    const auto i = sized((b * heads + h) * rows() + r);
    return std::span(columns).subspan(sized(offsets[i]), sized(offsets[i + 1] - offsets[i]));
  }
  double density() const;  // pairs in the blocks over all pairs
};

BlockForm block_form(const lists::KeyLists& lists, std::vector<std::int32_t> row_starts,
                     std::vector<std::int32_t> column_starts, Fit fit);

QueryRows query_rows(const BlockForm& form);  // refers to form

}  // namespace reel::study
