// Key lists that know the order of their tokens and the width of a head: what is written to files, read from them, and
// given to a model.
//
// File form (safetensors): `keys` i32, `offsets` i64, `group_starts` i32 [groups + 1], `dense_heads` u8 [batch, heads],
// `order` i32 [tokens], and metadata `keys_tokens`, `granularity`, `head_dim`. Files without `order` or `head_dim`, as
// they were written before, are read, too: what they do not say is empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reel/files/safetensors.h"
#include "reel/lists/key_lists.h"

namespace reel::lists {

struct OrderedLists : KeyLists {
  OrderedLists() = default;
  explicit OrderedLists(KeyLists lists, std::vector<std::int32_t> token_order = {}, std::int64_t width = 0)
      : KeyLists(std::move(lists)), order(std::move(token_order)), head_dim(width) {}

  // Token i of the lists is token order[i] of the clip in raster order, queries and keys alike. Empty: not known, and
  // taken for raster order.
  std::vector<std::int32_t> order;
  std::int64_t head_dim = 0;  // floats of a head; 0: not known

  bool in_raster_order() const;
  void check() const;  // as key lists are checked; and `order` names every token once
};

// Whether both number the tokens of a clip in the same way.
bool same_order(const OrderedLists& a, const OrderedLists& b);

void save(const OrderedLists& lists, const std::string& path);
void add_to(SafetensorsWriter& writer, const OrderedLists& lists);  // next to other tensors; refers to lists
OrderedLists load_key_lists(const std::string& path);
OrderedLists load_key_lists(const SafetensorsFile& file);

}  // namespace reel::lists
