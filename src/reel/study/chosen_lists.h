// Key lists for given q and k, with what it takes to judge them later: `reel study lists` makes the file, `reel export`
// reads it.
//
// In addition to key lists in their order (lists/ordered_lists.h) the file holds
//   seen_groups   i32 [seen]: query groups whose true weights are kept
//   weights       bf16 [heads, seen, tokens]: of all keys, mean over the group's queries, summing to 1
// and the metadata grid, tile, predictor. Readers of key lists do not mind, and files of plain key lists are read, too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/lists/ordered_lists.h"
#include "reel/study/qk_file.h"

namespace reel::study {

struct ChosenLists {
  lists::OrderedLists lists;  // the order of the tensors is taken for raster order
  std::vector<std::int32_t> seen_groups;
  Buffer<float> weights;  // empty: not known
  std::map<std::string, std::string> notes;

  std::span<const float> weights_of(std::int64_t head, std::size_t seen) const;
};

struct ChooseListsInput {
  const QkFile* file = nullptr;
  const lists::TokenOrder* order = nullptr;
  double keys = 0.1;             // share of the keys of a list, own tile included; more only where that is more
  std::string predictor = "qk";  // qk, hidden, true
  std::int64_t rank = 0;         // of qk and hidden; 0: qk head by head from its spectrum, 8 to 32; hidden 32
  std::int64_t samples = 0;      // queries of a group that are scored; 0: all
  int block = 1;                 // keys that are chosen together: 1, or 64
  std::function<void(std::int64_t head)> on_head;  // before each
};
ChosenLists choose_lists(const ChooseListsInput& in, Threads& threads);

// Rows of queries that share keys, in another cut than the lists' own groups: tokens of row r of head (b, h).
struct QueryRows {
  std::vector<std::int32_t> starts;  // rows + 1
  std::function<void(std::int64_t b, std::int64_t h, std::int64_t row, std::vector<std::int32_t>& tokens)> tokens;
};
QueryRows query_rows(const lists::KeyLists& lists);

// The share of the true attention that each head's rows look at, mean over the groups whose weights are known; empty
// where none are.
std::vector<double> covered_mass(const ChosenLists& chosen, const QueryRows& rows);

void save(const ChosenLists& chosen, const std::string& path);
ChosenLists load_chosen_lists(const std::string& path);

}  // namespace reel::study
