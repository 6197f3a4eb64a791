#include "reel/plan/partition.h"

#include <algorithm>

namespace reel::plan {

Indices bins_of(const std::vector<Indices>& lists, std::int64_t count) {
  Indices bins(static_cast<std::size_t>(count), -1);
  for (std::size_t bin = 0; bin < lists.size(); ++bin) {
    for (const std::int32_t index : lists[bin]) bins[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(bin);
  }
  return bins;
}

std::vector<Indices> lists_of(const Indices& bins, int count) {
  std::vector<Indices> lists(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bins.size(); ++i)
    lists[static_cast<std::size_t>(bins[i])].push_back(static_cast<std::int32_t>(i));
  return lists;
}

Indices runs(std::int64_t count, int bins) {
  Indices bin(static_cast<std::size_t>(count));
  for (std::int64_t b = 0; b < bins; ++b) {
    std::fill(bin.begin() + b * count / bins, bin.begin() + (b + 1) * count / bins, static_cast<std::int32_t>(b));
  }
  return bin;
}

Partition contiguous(const Counts& work, int ulysses, int ring) {
  Partition p{ulysses, ring, lists_of(runs(work.heads, ulysses), ulysses), {}, {}};
  p.rows.assign(static_cast<std::size_t>(ulysses), lists_of(runs(work.rows, ring), ring));
  p.keys.assign(static_cast<std::size_t>(ulysses), lists_of(runs(work.columns, ring), ring));
  return p;
}

namespace {

void check_dealt(const std::string& what, const std::vector<Indices>& lists, std::int64_t count, int bins) {
  if (lists.size() != static_cast<std::size_t>(bins))
    throw Error(fmt::format("the partition deals {} to {} bins, not {}", what, lists.size(), bins));
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(count), 0);
  std::int64_t dealt = 0;
  for (const Indices& list : lists) {
    for (const std::int32_t index : list) {
      if (index < 0 || index >= count)
        throw Error(fmt::format("the partition deals number {} of {} {}", index, count, what),
                    "it was made for another model or another length");
      if (seen[static_cast<std::size_t>(index)]++ != 0)
        throw Error(fmt::format("the partition deals number {} of the {} twice", index, what));
      ++dealt;
    }
    if (!std::is_sorted(list.begin(), list.end())) throw Error(fmt::format("{} of a partition must ascend", what));
  }
  if (dealt != count)
    throw Error(fmt::format("the partition deals {} of {} {}", dealt, count, what),
                "it was made for another model or another length");
}

}  // namespace

void check(const Partition& partition, const Counts& work) {
  if (partition.ulysses < 1 || partition.ring < 1)
    throw Error(fmt::format("a partition over {} x {} ranks", partition.ulysses, partition.ring));
  check_dealt("heads", partition.heads, work.heads, partition.ulysses);
  const auto groups = static_cast<std::size_t>(partition.ulysses);
  if (partition.rows.size() != groups || partition.keys.size() != groups)
    throw Error("a partition deals rows and keys for each Ulysses group");
  for (std::size_t u = 0; u < groups; ++u) {
    check_dealt("query groups", partition.rows[u], work.rows, partition.ring);
    check_dealt("runs of keys", partition.keys[u], work.columns, partition.ring);
  }
}

namespace {

// Adds what the heads of one kind of blocks (rows or columns) move.
void add_moved(const std::vector<std::vector<Indices>>& from, const std::vector<std::vector<Indices>>& to,
               const Indices& group_from, const Indices& group_to, const std::vector<std::int32_t>& tokens, int ulysses,
               double token_bytes, std::int64_t& count, std::vector<double>& sent, std::vector<double>& received) {
  const auto blocks = static_cast<std::int64_t>(tokens.size());
  std::vector<Indices> before, after;
  before.reserve(from.size()), after.reserve(to.size());
  for (const auto& lists : from) before.push_back(bins_of(lists, blocks));
  for (const auto& lists : to) after.push_back(bins_of(lists, blocks));
  for (std::size_t h = 0; h < group_from.size(); ++h) {
    const Indices& old_place = before[static_cast<std::size_t>(group_from[h])];
    const Indices& new_place = after[static_cast<std::size_t>(group_to[h])];
    for (std::size_t x = 0; x < tokens.size(); ++x) {
      if (old_place[x] == new_place[x]) continue;
      ++count;
      sent[static_cast<std::size_t>(old_place[x] * ulysses + group_to[h])] += tokens[x] * token_bytes;
      received[static_cast<std::size_t>(new_place[x] * ulysses + group_to[h])] += tokens[x] * token_bytes;
    }
  }
}

}  // namespace

Moved moved(const Partition& from, const Partition& to, const Counts& work, std::int64_t head_dim,
            double element_bytes) {
  REEL_CHECK(from.ulysses == to.ulysses && from.ring == to.ring);
  const Indices group_from = bins_of(from.heads, work.heads), group_to = bins_of(to.heads, work.heads);
  // q and the output, or k and v: two tensors either way.
  const double token_bytes = 2 * static_cast<double>(work.batch * head_dim) * element_bytes;
  std::vector<double> sent(static_cast<std::size_t>(to.ranks()), 0.0), received = sent;
  Moved m;
  add_moved(from.rows, to.rows, group_from, group_to, work.row_tokens, to.ulysses, token_bytes, m.rows, sent, received);
  add_moved(from.keys, to.keys, group_from, group_to, work.column_tokens, to.ulysses, token_bytes, m.columns, sent,
            received);
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    m.bytes += sent[rank];
    m.most_bytes = std::max({m.most_bytes, sent[rank], received[rank]});
  }
  m.share = static_cast<double>(m.rows) / static_cast<double>(work.heads * work.rows);
  return m;
}

}  // namespace reel::plan
