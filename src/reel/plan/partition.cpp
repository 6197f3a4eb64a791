#include "reel/plan/partition.h"

#include <algorithm>

#include "reel/base/sized.h"

namespace reel::plan {

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
    const Indices& old_place = before[sized(group_from[h])];
    const Indices& new_place = after[sized(group_to[h])];
    for (std::size_t x = 0; x < tokens.size(); ++x) {
      if (old_place[x] == new_place[x]) continue;
      ++count;
      sent[sized(old_place[x] * ulysses + group_to[h])] += tokens[x] * token_bytes;
      received[sized(new_place[x] * ulysses + group_to[h])] += tokens[x] * token_bytes;
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
  std::vector<double> sent(sized(to.ranks()), 0.0), received = sent;
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
