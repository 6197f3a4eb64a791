// Partition: which rank computes which heads, which query groups and which keys of one attention.
//
// ulysses * ring ranks. Rank (u, i), number i * ulysses + u, computes the heads of Ulysses group u for the rows at ring
// position i. In ring step t it has the keys of position (i + t) mod ring at hand. The ranks that trade heads have the
// same i; those that trade keys have the same u. A row is a query group; a column is a run of key blocks
// (plan/counts.h). Rows and columns are dealt by each Ulysses group for itself, since its heads have masks of their
// own. All lists ascend; a list may be empty.
//
// plan makes partitions and prices them; `reel plan` writes them down. Runs rest on contiguous ones.
#pragma once

#include <cstdint>
#include <vector>

namespace reel::layout {

using Indices = std::vector<std::int32_t>;

struct Partition {
  int ulysses = 1, ring = 1;
  std::vector<Indices> heads;              // [ulysses]
  std::vector<std::vector<Indices>> rows;  // [ulysses][ring]
  std::vector<std::vector<Indices>> keys;  // [ulysses][ring], columns

  int ranks() const { return ulysses * ring; }
};

// Nobody looked at the mask: runs of heads, rows and columns.
Partition contiguous(std::int64_t heads, std::int64_t rows, std::int64_t columns, int ulysses, int ring);

// Every head is in one group, every row and column of each group at one position, all in range, as many groups as it
// says; else an Error: "made for another model" is one of its reasons.
void check(const Partition& partition, std::int64_t heads, std::int64_t rows, std::int64_t columns);

// Position of each of `count` indices: bins_of({{0, 2}, {1}}, 3) = {0, 1, 0}; and back.
Indices bins_of(const std::vector<Indices>& lists, std::int64_t count);
std::vector<Indices> lists_of(const Indices& bins, int count);
// The position of each of `count` indices that rest where resting_cut (cut.h) says.
Indices runs(std::int64_t count, int bins);

}  // namespace reel::layout
