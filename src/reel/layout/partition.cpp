#include "reel/layout/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/layout/cut.h"

namespace reel::layout {

Indices bins_of(const std::vector<Indices>& lists, std::int64_t count) {
  Indices bins(sized(count), -1);
  for (std::size_t bin = 0; bin < lists.size(); ++bin) {
    for (const std::int32_t index : lists[bin]) bins[sized(index)] = static_cast<std::int32_t>(bin);
  }
  return bins;
}

std::vector<Indices> lists_of(const Indices& bins, int count) {
  std::vector<Indices> lists(sized(count));
  for (std::size_t i = 0; i < bins.size(); ++i) lists[sized(bins[i])].push_back(static_cast<std::int32_t>(i));
  return lists;
}

Indices runs(std::int64_t count, int bins) {
  const Cut cut = resting_cut(count, bins);
  Indices bin(sized(count));
  for (int b = 0; b < bins; ++b) std::fill(bin.begin() + cut.begin(b), bin.begin() + cut.end(b), b);
  return bin;
}

Partition contiguous(std::int64_t heads, std::int64_t rows, std::int64_t columns, int ulysses, int ring) {
  Partition p{ulysses, ring, lists_of(runs(heads, ulysses), ulysses), {}, {}};
  p.rows.assign(sized(ulysses), lists_of(runs(rows, ring), ring));
  p.keys.assign(sized(ulysses), lists_of(runs(columns, ring), ring));
  return p;
}

namespace {

constexpr const char* kOther = "it was made for another model or another length";
constexpr const char* kBroken = "make the partition again: reel plan partition";

void check_dealt(const std::string& what, const std::vector<Indices>& lists, std::int64_t count, int bins) {
  if (lists.size() != sized(bins))
    throw Error(fmt::format("the partition deals {} to {} bins, not {}", what, lists.size(), bins), kOther);
  std::vector<std::uint8_t> seen(sized(count), 0);
  std::int64_t dealt = 0;
  for (const Indices& list : lists) {
    for (const std::int32_t index : list) {
      if (index < 0 || index >= count)
        throw Error(fmt::format("the partition deals number {} of {} {}", index, count, what), kOther);
      if (seen[sized(index)]++ != 0)
        throw Error(fmt::format("the partition deals number {} of the {} twice", index, what), kBroken);
      ++dealt;
    }
    if (!std::is_sorted(list.begin(), list.end()))
      throw Error(fmt::format("{} of a partition must ascend", what), kBroken);
  }
  if (dealt != count) throw Error(fmt::format("the partition deals {} of {} {}", dealt, count, what), kOther);
}

}  // namespace

void check(const Partition& partition, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  if (partition.ulysses < 1 || partition.ring < 1)
    throw Error(fmt::format("a partition over {} x {} ranks", partition.ulysses, partition.ring), kBroken);
  check_dealt("heads", partition.heads, heads, partition.ulysses);
  const auto groups = sized(partition.ulysses);
  if (partition.rows.size() != groups || partition.keys.size() != groups)
    throw Error("a partition deals rows and keys for each Ulysses group", kBroken);
  for (std::size_t u = 0; u < groups; ++u) {
    check_dealt("query groups", partition.rows[u], rows, partition.ring);
    check_dealt("runs of keys", partition.keys[u], columns, partition.ring);
  }
}

}  // namespace reel::layout
