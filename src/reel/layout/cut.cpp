#include "reel/layout/cut.h"

#include <fmt/format.h>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::layout {

Cut even_cut(std::int64_t extent, int parts) {
  Cut cut;
  for (int i = 0; i < parts; ++i)
    cut.starts.push_back(cut.starts.back() + extent / parts + (i < extent % parts ? 1 : 0));
  return cut;
}

Cut resting_cut(std::int64_t extent, int parts) {
  Cut cut;
  for (std::int64_t i = 1; i <= parts; ++i) cut.starts.push_back(i * extent / parts);
  return cut;
}

Cut resting_cut(std::span<const std::int32_t> group_starts, int parts) {
  REEL_CHECK(!group_starts.empty() && group_starts.front() == 0);
  Cut cut = resting_cut(static_cast<std::int64_t>(group_starts.size()) - 1, parts);
  for (std::int64_t& start : cut.starts) start = group_starts[sized(start)];
  return cut;
}

Cut cut_of_clips(std::string_view batch, std::int64_t clips, int groups) {
  if (clips >= groups) return even_cut(clips, groups);
  throw Error(
      fmt::format("{} = {} for {} data-parallel groups of ranks: some would have no clip", batch, clips, groups),
      fmt::format("use {} = {} or more, {} groups or fewer, or a plan for more ranks a clip", batch, groups, clips));
}

Cut some_parts(const Cut& cut, int first, int count) {
  Cut some;
  for (int i = 0; i < count; ++i) some.starts.push_back(cut.end(first + i) - cut.begin(first));
  return some;
}

}  // namespace reel::layout
