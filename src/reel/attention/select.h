// Selection: which keys matter for each group of queries, from low-rank queries and keys.
//
// Every group has `samples` queries of `rank` floats, every key a row of `rank` floats. The weight of a key for a group
// is the sum over the group's samples of softmax(scale * q k^T) at that key; the weight of a tile is the sum over its
// 64 keys. select() keeps the `keep` heaviest entries of every group, exactly (of equal weights the lower index),
// sorted. Entries that a list must hold whatever they weigh (`keep_own`, `always`) come before all others and count
// among the `keep`; only where there are more of them than `keep` the list is longer. One sample per group and token
// granularity is the cheap form: the order of weights is the order of scores, so no exponential is taken. Rows
// are rounded to 16-bit integers first (low_rank.h); the choice is exact for those. Memory: samples * keys * 2 bytes
// per thread; the matrix of all scores is never formed. Same bits for any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/attention/attention.h"
#include "reel/base/threads.h"
#include "reel/lists/key_lists.h"

namespace reel::attention {

struct SelectInput {
  std::int64_t batch = 1, heads = 1, keys = 0, rank = 0, samples = 1;
  std::vector<std::int32_t> group_starts;  // groups + 1 (key_lists.h)
  ConstView q;                             // row g * samples + s: sample s of group g
  ConstView k;                             // row j: key j
  float scale = 1;
  int granularity = 1;               // 1 or lists::kTileKeys
  std::vector<std::int64_t> keep;    // entries per list: one number, or one per (batch item, head); all = dense head
  bool keep_own = false;             // every list holds the entries of its own queries
  std::int64_t first_query = 0;      // for keep_own: query i is key first_query + i
  std::vector<std::int32_t> always;  // entries that every list holds, ascending
  bool keep_beside = false;          // these do not count among the `keep`
};

lists::KeyLists select(const SelectInput& in, Threads& threads);

// Weights of all entries for one group, in double precision, of the rounded rows: what select() must agree with, up to
// the rounding of f32.
std::vector<double> reference_weights(const SelectInput& in, std::int64_t b, std::int64_t h, std::int64_t group);

}  // namespace reel::attention
