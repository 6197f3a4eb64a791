#include "reel/plan/gather.h"

#include <algorithm>
#include <numeric>

#include "reel/base/sized.h"

namespace reel::plan {

double GatherPlan::total_bytes() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

double GatherPlan::most_bytes() const {
  double most = 0;
  for (int u = 0; u < ulysses; ++u) {
    for (int i = 0; i < ring; ++i) {
      double in = 0, out = 0;
      for (int j = 0; j < ring; ++j) {
        in += bytes[sized((u * ring + i) * ring + j)];
        out += bytes[sized((u * ring + j) * ring + i)];
      }
      most = std::max({most, in, out});
    }
  }
  return most;
}

std::int64_t GatherPlan::most_fetched() const {
  return fetched.empty() ? 0 : *std::max_element(fetched.begin(), fetched.end());
}

double GatherPlan::most_memory() const { return memory.empty() ? 0 : *std::max_element(memory.begin(), memory.end()); }

namespace {

// A mark for every entry that the rows of one position need in one head.
void mark_union(const lists::KeyLists& lists, std::int64_t b, std::int64_t h, const Indices& rows,
                std::vector<std::uint8_t>& needed) {
  const bool all = lists.dense(b, h) && !rows.empty();
  std::fill(needed.begin(), needed.end(), all ? std::uint8_t{1} : std::uint8_t{0});
  if (lists.dense(b, h)) return;
  for (const std::int32_t row : rows) {
    for (const std::int32_t entry : lists.list(b, h, row)) needed[sized(entry)] = 1;
  }
}

}  // namespace

GatherPlan plan_gather(const lists::KeyLists& lists, const Counts& work, const Partition& partition,
                       std::int64_t head_dim, double element_bytes) {
  check(partition, work);
  if (lists.heads != work.heads || lists.groups() != work.rows)
    throw Error(fmt::format("lists of {} heads and {} groups for a plan of {} and {}", lists.heads, lists.groups(),
                            work.heads, work.rows),
                "count the work of these very lists");
  const int ring = partition.ring;
  GatherPlan plan{partition.ulysses, ring, lists.heads, {}, {}, {}, {}};
  plan.entries.resize(sized(lists.batch * lists.heads * ring * ring));
  plan.bytes.assign(sized(partition.ulysses * ring * ring), 0.0);
  plan.fetched.assign(sized(partition.ulysses * ring), 0);
  plan.memory.assign(plan.fetched.size(), 0.0);
  std::vector<std::uint8_t> needed(sized(lists.entries()));
  for (int u = 0; u < partition.ulysses; ++u) {
    const Indices place = bins_of(partition.keys[sized(u)], work.columns);
    for (std::int64_t b = 0; b < lists.batch; ++b) {
      for (const std::int32_t head : partition.heads[sized(u)]) {
        for (int to = 0; to < ring; ++to) {
          mark_union(lists, b, head, partition.rows[sized(u)][sized(to)], needed);
          const auto rank = sized(u * ring + to);
          for (std::int64_t entry = 0; entry < lists.entries(); ++entry) {
            if (needed[sized(entry)] == 0) continue;
            const std::int64_t token = entry * lists.granularity;
            const int from = place[sized(work.column_of[sized(token / kBlockTokens)])];
            plan.entries[sized(((b * lists.heads + head) * ring + to) * ring + from)].push_back(
                static_cast<std::int32_t>(entry));
            const std::int64_t tokens = std::min<std::int64_t>(lists.granularity, lists.keys_tokens - token);
            const double size = 2 * static_cast<double>(tokens * head_dim) * element_bytes;
            plan.memory[rank] += size;
            if (from == to) continue;
            plan.bytes[rank * sized(ring) + sized(from)] += size;
            ++plan.fetched[rank];
          }
        }
      }
    }
  }
  return plan;
}

}  // namespace reel::plan
