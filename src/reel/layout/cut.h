// Where an axis is cut over the ranks of a group: rank r has [starts[r], starts[r + 1]). Parts may differ in size and
// be empty. Nothing is ever padded.
#pragma once

#include <cstdint>
#include <vector>

namespace reel::layout {

struct Cut {
  std::vector<std::int64_t> starts = {0};  // parts + 1

  int parts() const { return static_cast<int>(starts.size()) - 1; }
  std::int64_t extent() const { return starts.back(); }
  std::int64_t begin(int part) const { return starts[static_cast<std::size_t>(part)]; }
  std::int64_t end(int part) const { return starts[static_cast<std::size_t>(part) + 1]; }
  std::int64_t size(int part) const { return end(part) - begin(part); }
};

// Parts that differ by one at most, the larger ones first.
Cut even_cut(std::int64_t extent, int parts);

// Parts [first, first + count) of a cut as a cut of their own, counted from the begin of the first.
Cut some_parts(const Cut& cut, int first, int count);

}  // namespace reel::layout
