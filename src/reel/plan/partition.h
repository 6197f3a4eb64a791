// Partition: who computes which heads and which query groups, and what moves. Made by plan, obeyed by parallel, priced
// by sim.
//
// ulysses * ring ranks. Rank (u, i), number i * ulysses + u, computes the heads of Ulysses group u for the rows at ring
// position i. In ring step t it has the keys of position (i + t) mod ring at hand. The ranks that trade heads (one i)
// are neighbours; those that trade keys (one u) are `ulysses` apart.
//
// Before the plan, ring position i holds the i-th of `ring` runs of rows and of columns (work.h says what those are),
// as even as whole ones can be. A plan that moves blocks sends q and the output of a row, k and v of a column, to
// another position of the same Ulysses group. Rows and keys are dealt by each Ulysses group for itself, since its heads
// have masks of their own. All lists ascend; a list may be empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/plan/counts.h"

namespace reel::plan {

using Indices = std::vector<std::int32_t>;

struct Partition {
  int ulysses = 1, ring = 1;
  std::vector<Indices> heads;              // [ulysses]
  std::vector<std::vector<Indices>> rows;  // [ulysses][ring]
  std::vector<std::vector<Indices>> keys;  // [ulysses][ring], columns

  int ranks() const { return ulysses * ring; }
};

// Nobody looked at the mask: runs of heads, rows and columns.
Partition contiguous(const Counts& work, int ulysses, int ring);

// Every head is in one group, every row and column of each group at one position, all in range, as many groups as it
// says; else an Error: "mask of another model" is one of its reasons.
void check(const Partition& partition, const Counts& work);

// Position of each of `count` indices: bins_of({{0, 2}, {1}}, 3) = {0, 1, 0}; and back.
Indices bins_of(const std::vector<Indices>& lists, std::int64_t count);
std::vector<Indices> lists_of(const Indices& bins, int count);
Indices runs(std::int64_t count, int bins);  // bin of each, in runs

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
