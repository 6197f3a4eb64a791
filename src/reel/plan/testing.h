// The imbalance of a plan computed from the lists alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "reel/lists/key_lists.h"
#include "reel/plan/partition.h"
#include "reel/plan/samples.h"

namespace reel::plan {

// rho_s and the form without barrier by their definitions: every key of every list, one by one.
struct SlowImbalance {
  double rho = 0, rho_no_barrier = 0;
};
inline SlowImbalance slow_imbalance(const lists::KeyLists& lists, const GroupCost& cost, const Partition& p,
                                    const Indices& column_of) {
  std::map<std::pair<int, int>, double> of_step;  // (step, rank)
  std::map<int, double> of_rank;
  double all = 0;
  const auto position = [](const std::vector<Indices>& lists_, std::int32_t index) {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (std::find(lists_[i].begin(), lists_[i].end(), index) != lists_[i].end()) return static_cast<int>(i);
    }
    std::abort();
  };
  std::int32_t largest = 0;
  for (std::size_t g = 0; g + 1 < lists.group_starts.size(); ++g)
    largest = std::max(largest, lists.group_starts[g + 1] - lists.group_starts[g]);
  for (std::int32_t head = 0; head < lists.heads; ++head) {
    const int u = position(p.heads, head);
    const auto& keys = p.keys[static_cast<std::size_t>(u)];
    std::vector<int> place;  // of each key block
    for (const std::int32_t column : column_of) place.push_back(position(keys, column));
    for (std::int32_t row = 0; row < lists.groups(); ++row) {
      const int i = position(p.rows[static_cast<std::size_t>(u)], row), rank = i * p.ulysses + u;
      std::map<int, double> found;  // keys at each position
      for (std::int64_t b = 0; b < lists.batch; ++b) {
        const auto add = [&](std::int64_t token, double count) {
          found[place[static_cast<std::size_t>(token / 64)]] += count;
        };
        if (lists.dense(b, head)) {
          for (std::int64_t token = 0; token < lists.keys_tokens; ++token) add(token, 1);
        } else {
          for (const std::int64_t entry : lists.list(b, head, row)) {  // a tile lies in one block
            const std::int64_t token = entry * lists.granularity;
            add(token, static_cast<double>(std::min<std::int64_t>(lists.granularity, lists.keys_tokens - token)));
          }
        }
      }
      const double share = static_cast<double>(lists.group_starts[static_cast<std::size_t>(row) + 1] -
                                               lists.group_starts[static_cast<std::size_t>(row)]) /
                           largest;
      for (const auto& [j, count] : found) {
        const double work = cost.fixed * static_cast<double>(lists.batch) + cost.per_key * share * count;
        of_step[{(j - i + p.ring) % p.ring, rank}] += work;
        of_rank[rank] += work;
        all += work;
      }
    }
  }
  const double mean = all / p.ranks();
  std::map<int, double> slowest;
  for (const auto& [at, work] : of_step) slowest[at.first] = std::max(slowest[at.first], work);
  SlowImbalance out;
  for (const auto& [step, work] : slowest) out.rho += work / mean;
  for (const auto& [rank, work] : of_rank) out.rho_no_barrier = std::max(out.rho_no_barrier, work / mean);
  return out;
}

}  // namespace reel::plan
