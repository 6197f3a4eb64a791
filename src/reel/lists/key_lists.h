// Which keys each group of queries attends to: the one currency of sparsity, plan, parallel and attention. Kernels look
// at lists, or at a part of them, through a view (view.h).
//
// Queries come in groups of consecutive tokens (group_starts, any sizes, shared by all heads). List (b, h, g) holds the
// keys that group g of head h of batch item b attends to: keys[offsets[i] .. offsets[i + 1]) with i = (b * heads + h) *
// groups + g, strictly ascending. An entry is one token (granularity 1) or a tile of 64 consecutive tokens (granularity
// 64, the last tile may be short). A dense head attends to all keys and has empty lists.
// Which tokens of a clip the numbers stand for is what OrderedLists know (ordered_lists.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::lists {

constexpr int kTileKeys = 64;  // tokens of an entry when granularity is not 1

struct KeyLists {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t keys_tokens = 0;            // number of keys, in tokens
  int granularity = 1;                     // tokens per entry: 1 or kTileKeys
  std::vector<std::int32_t> group_starts;  // groups + 1, from 0 to the number of queries
  std::vector<std::int64_t> offsets;       // batch * heads * groups + 1
  std::vector<std::int32_t> keys;          // entries of all lists
  std::vector<std::uint8_t> dense_heads;   // batch * heads

  std::int64_t groups() const { return static_cast<std::int64_t>(group_starts.size()) - 1; }
  std::int64_t queries() const { return group_starts.back(); }
  std::int64_t entries() const { return (keys_tokens + granularity - 1) / granularity; }
  bool dense(std::int64_t b, std::int64_t h) const { return dense_heads[sized(b * heads + h)] != 0; }
  std::span<const std::int32_t> list(std::int64_t b, std::int64_t h, std::int64_t g) const {
    const auto i = sized((b * heads + h) * groups() + g);
    return std::span(keys).subspan(sized(offsets[i]), sized(offsets[i + 1] - offsets[i]));
  }

  // Key tokens of one list (all tokens for a dense head): how many, and which, ascending, in place of what `out` held.
  std::int64_t tokens(std::int64_t b, std::int64_t h, std::int64_t g) const;
  void tokens(std::int64_t b, std::int64_t h, std::int64_t g, std::vector<std::int32_t>& out) const;
  // Query-key pairs of one head and of everything.
  std::int64_t pairs(std::int64_t b, std::int64_t h) const;
  std::int64_t pairs() const;
  double density() const;  // pairs() over batch * heads * queries * keys; 1 where there is nothing

  // Throws an Error where a promise above is broken, which says what is wrong in which list and what to do. Builders
  // and readers of files check what they return, and the first view checks what it is given. That is cheap compared
  // with any use of the lists.
  void check() const;
};

// Starts of groups of `size` queries, the last one short.
std::vector<std::int32_t> uniform_groups(std::int64_t queries, std::int64_t size);

KeyLists dense_lists(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys);

// Appends lists in order (batch item, head, group).
class KeyListsBuilder {
 public:
  KeyListsBuilder(std::int64_t batch, std::int64_t heads, std::int64_t keys_tokens,
                  std::vector<std::int32_t> group_starts, int granularity = 1);
  void add(std::span<const std::int32_t> entries);  // the next list
  void add_dense_head();                            // the next head, whose groups attend to all keys
  // The next head, as it is in lists with the same groups, keys and granularity.
  void add_head(const KeyLists& lists, std::int64_t b, std::int64_t h);
  KeyLists finish();  // checked

 private:
  KeyLists lists_;
};

// The same relation seen from the keys. Entry e of head (b, h) is attended to by groups
// groups[offsets[i] .. offsets[i + 1]) with i = (b * heads + h) * entries + e, ascending. Dense heads have empty lists.
struct QueryLists {
  std::int64_t batch = 1, heads = 0, entries = 0;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> groups;
  std::span<const std::int32_t> list(std::int64_t b, std::int64_t h, std::int64_t e) const {
    const auto i = sized((b * heads + h) * entries + e);
    return std::span(groups).subspan(sized(offsets[i]), sized(offsets[i + 1] - offsets[i]));
  }
};
QueryLists transpose(const KeyLists& lists);

// Lists of `share` of the keys, drawn uniformly without repetition; the same for the same seed.
KeyLists random_lists(std::int64_t batch, std::int64_t heads, std::int64_t keys_tokens,
                      std::vector<std::int32_t> group_starts, double share, int granularity, std::uint64_t seed);

}  // namespace reel::lists
