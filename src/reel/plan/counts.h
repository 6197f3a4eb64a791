// How much there is to compute, seen from those who deal it out: work of a (head, row, column).
//
// A row is a query group of the key lists. A column is a run of consecutive key blocks of 64 tokens: one block for up
// to 255 of them, more where the keys are many, so that a plan takes as long for 75,000 tokens as for 8,000 (keys are
// moved in runs anyway, rows one by one). Columns differ by a block at most, spread so that equal runs of columns are
// equal runs of blocks. Batch items are computed by the same rank and added up.
//
// Work of a row over some columns: fixed + per_key * keys when there are keys, else nothing. A row of fewer queries
// than the largest takes its share of per_key. Seconds when the cost comes from a Machine or a Cluster; for a plain
// block mask it is the number of blocks (kBlockCost).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/cost/cluster.h"
#include "reel/cost/machine.h"
#include "reel/lists/key_lists.h"

namespace reel::plan {

constexpr std::int64_t kBlockTokens = 64;  // of a key block

struct GroupCost {
  double fixed = 0;    // of a group that has keys, each time it is visited
  double per_key = 1;  // of a group, for every key
};
constexpr GroupCost kBlockCost{0, 1.0 / static_cast<double>(kBlockTokens)};

// The cost on a Machine: arithmetic at the peak, 4 * head_dim operations a query and key; queries in and output out
// through memory for every visit, or nothing where memory was not measured. The cost on a Cluster: forward, as its
// device times list-sparse attention.
GroupCost group_cost(const cost::Machine& machine, std::int64_t group_queries, std::int64_t head_dim);
GroupCost group_cost(const cost::Cluster& cluster, std::int64_t group_queries, std::int64_t head_dim);

struct Counts {
  std::int64_t heads = 0, rows = 0, columns = 0;
  std::int64_t batch = 1;
  GroupCost cost;
  std::int64_t blocks = 0;                  // key blocks of all columns
  std::vector<std::int32_t> column_of;      // of each key block
  std::vector<std::int32_t> row_tokens;     // queries of a row
  std::vector<std::int32_t> column_tokens;  // keys of a column
  std::vector<float> row_scale;             // queries of a row over those of the largest
  std::vector<std::uint16_t> keys;          // [heads][rows][columns], of all batch items together
  std::vector<std::uint32_t> row_keys;      // [heads][rows], their sums
  std::int64_t words = 0;                   // of 64 columns
  std::vector<std::uint64_t> filled;        // [heads][rows][words]: a bit for each column that has keys

  const std::uint16_t* keys_of(std::int64_t head, std::int64_t row) const {
    return keys.data() + (head * rows + row) * columns;
  }
  const std::uint64_t* filled_of(std::int64_t head, std::int64_t row) const {
    return filled.data() + (head * rows + row) * words;
  }
  std::int64_t tokens() const;                      // queries of all rows
  std::vector<double> head_work(int visits) const;  // of each head, when a group that has keys is visited so often
};

// For a plan over `ranks`: where blocks are many, columns are a multiple of it, since any ring then begins with runs as
// even as blocks allow, and at least 4 for each. An Error for lists without heads, queries or keys, and for lists
// without a single pair: nothing can be balanced there.
Counts count_work(const lists::KeyLists& lists, const GroupCost& cost, std::int64_t ranks = 1);

// `mask` [heads][rows][columns], 0 or not, of blocks of 64 x 64 tokens, as lists of key tiles.
lists::KeyLists lists_of_mask(std::span<const std::uint8_t> mask, std::int64_t heads, std::int64_t rows,
                              std::int64_t columns);

}  // namespace reel::plan
