// Partitions of what was counted: where everything rests, and what a change of partition moves.
//
// Before the plan, ring position i holds the i-th of `ring` runs of rows and of columns (counts.h says what those are),
// as even as whole ones can be. A plan that moves blocks sends q and the output of a row, k and v of a column, to
// another position of the same Ulysses group.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/layout/partition.h"
#include "reel/plan/counts.h"

namespace reel::plan {

using layout::bins_of;
using layout::Indices;
using layout::lists_of;
using layout::Partition;
using layout::runs;

inline Partition contiguous(const Counts& work, int ulysses, int ring) {
  return layout::contiguous(work.heads, work.rows, work.columns, ulysses, ring);
}
inline void check(const Partition& partition, const Counts& work) {
  layout::check(partition, work.heads, work.rows, work.columns);
}

// What changing from one partition to another moves, for one forward pass: (head, row) pairs that change their ring
// position take q along and send the output back; (head, column) pairs take k and v. Heads that only change their group
// move nothing that the exchange of heads would not move anyway.
struct Moved {
  std::int64_t rows = 0, columns = 0;  // (head, row) and (head, column) pairs
  double bytes = 0;
  double share = 0;       // of all (head, row) pairs
  double most_bytes = 0;  // that one rank sends or receives
};
Moved moved(const Partition& from, const Partition& to, const Counts& work, std::int64_t head_dim,
            double element_bytes);

}  // namespace reel::plan
