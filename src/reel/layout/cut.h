// Where an axis is cut over the ranks of a group: rank r has [starts[r], starts[r + 1]). Parts may differ in size and
// be empty. Nothing is ever padded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reel/base/sized.h"

namespace reel::layout {

struct Cut {
  std::vector<std::int64_t> starts = {0};  // parts + 1

  int parts() const { return static_cast<int>(starts.size()) - 1; }
  std::int64_t extent() const { return starts.back(); }
  std::int64_t begin(int part) const { return starts[sized(part)]; }
  std::int64_t end(int part) const { return starts[sized(part) + 1]; }
  std::int64_t size(int part) const { return end(part) - begin(part); }
};

// Parts that differ by one at most, the larger ones first.
Cut even_cut(std::int64_t extent, int parts);

// The resting place of tokens: each part has whole query groups, part i of n groups [i * groups / n, (i + 1) * groups /
// n), which is as even as whole groups can be. group_starts are those of key lists (lists/key_lists.h): groups + 1,
// from 0 to the number of tokens. Cuts nest: the first m of n parts are what part 0 of n / m parts has.
Cut resting_cut(std::span<const std::int32_t> group_starts, int parts);
// The same where every group is one token.
Cut resting_cut(std::int64_t extent, int parts);

// The clips of a batch over data-parallel groups of ranks: evenly, and every group has one. Where clips are too few, an
// Error says which numbers would do; `batch` is what its user calls the number of clips ("train.batch").
Cut cut_of_clips(std::string_view batch, std::int64_t clips, int groups);

// Parts [first, first + count) of a cut as a cut of their own, counted from the begin of the first.
Cut some_parts(const Cut& cut, int first, int count);

}  // namespace reel::layout
