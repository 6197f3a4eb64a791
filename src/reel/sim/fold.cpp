#include "reel/sim/fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::sim {

namespace {

// Numbers rows of equal content equally, in the order of their first appearance.
class Numbering {
 public:
  explicit Numbering(std::size_t width) : width_(width), table_(64, -1) {}

  std::int32_t number(std::span<const std::int32_t> row) {
    if (sized(count_) * 2 >= table_.size()) grow();
    std::size_t at = hash(row) & (table_.size() - 1);
    for (; table_[at] >= 0; at = (at + 1) & (table_.size() - 1)) {
      if (std::equal(row.begin(), row.end(), row_of(table_[at]).begin())) return table_[at];
    }
    rows_.insert(rows_.end(), row.begin(), row.end());
    return table_[at] = count_++;
  }
  std::int32_t count() const { return count_; }

 private:
  std::span<const std::int32_t> row_of(std::int32_t i) const { return {rows_.data() + sized(i) * width_, width_}; }
  static std::size_t hash(std::span<const std::int32_t> row) {
    std::uint64_t h = 0x9e3779b97f4a7c15ULL;
    for (const std::int32_t value : row)
      h = (h ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdULL, h ^= h >> 32;
    return sized(h);
  }
  void grow() {
    table_.assign(table_.size() * 4, -1);
    for (std::int32_t i = 0; i < count_; ++i) {
      std::size_t at = hash(row_of(i)) & (table_.size() - 1);
      while (table_[at] >= 0) at = (at + 1) & (table_.size() - 1);
      table_[at] = i;
    }
  }

  std::size_t width_;
  std::int32_t count_ = 0;
  std::vector<std::int32_t> table_, rows_;
};

// Equal for groups of one variant whose members come from the same classes. A channel keeps its order: sender,
// receiver.
std::vector<std::int32_t> group_kinds(const Workload& w, const std::vector<std::int32_t>& class_of) {
  std::map<std::vector<std::int32_t>, std::int32_t> kinds;
  std::vector<std::int32_t> result(w.groups.size()), key;
  for (std::size_t g = 0; g < w.groups.size(); ++g) {
    const Group& group = w.groups[g];
    key.clear();
    for (std::int32_t i = 0; i < group.count; ++i) {
      const std::int32_t c = class_of[sized(w.members[sized(group.first + i)])];
      if (group.channel || key.empty() || key.back() != c) key.push_back(c);
    }
    if (!group.channel) {
      std::sort(key.begin(), key.end());
      key.erase(std::unique(key.begin(), key.end()), key.end());
    }
    key.push_back(-1 - group.variant);
    result[g] = kinds.try_emplace(key, static_cast<std::int32_t>(kinds.size())).first->second;
  }
  return result;
}

void name_representatives(Folding& folding, std::int32_t classes) {
  folding.representative.assign(sized(classes), -1);
  folding.size.assign(sized(classes), 0);
  for (std::size_t r = 0; r < folding.class_of.size(); ++r) {
    const auto c = sized(folding.class_of[r]);
    if (folding.representative[c] < 0) folding.representative[c] = static_cast<std::int32_t>(r);
    ++folding.size[c];
  }
}

}  // namespace

Folding fold(const Workload& w) {
  const auto ranks = sized(w.ranks());
  Folding folding;
  folding.class_of.resize(ranks);
  std::int32_t classes = 0;
  {
    std::map<std::pair<std::int32_t, double>, std::int32_t> first;
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::pair key(w.program_of[r], w.slow.empty() ? 1.0 : w.slow[r]);
      folding.class_of[r] = first.try_emplace(key, static_cast<std::int32_t>(first.size())).first->second;
    }
    classes = static_cast<std::int32_t>(first.size());
  }
  const auto slots = sized(w.slots);
  std::vector<std::int32_t> row(slots + 1);
  while (true) {
    const std::vector<std::int32_t> kinds = group_kinds(w, folding.class_of);
    Numbering numbering(slots + 1);
    std::vector<std::int32_t> next(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      row[0] = folding.class_of[r];
      for (std::size_t s = 0; s < slots; ++s) {
        const std::int32_t g = w.group_of[r * slots + s];
        row[s + 1] = g < 0 ? -1 : kinds[sized(g)];
      }
      next[r] = numbering.number(row);
    }
    folding.class_of = std::move(next);
    const bool stable = numbering.count() == classes;
    classes = numbering.count();
    if (stable) break;
  }
  name_representatives(folding, classes);
  return folding;
}

Folding unfolded(const Workload& w) {
  Folding folding;
  folding.class_of.resize(sized(w.ranks()));
  std::iota(folding.class_of.begin(), folding.class_of.end(), 0);
  name_representatives(folding, w.ranks());
  folding.merge = false;
  return folding;
}

}  // namespace reel::sim
