#include "reel/parallel/gathers.h"

#include <algorithm>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::parallel {

using lists::KeyLists;

namespace {

// The lists of every rank, one rank after another, without a way to tell where those of a rank begin.
struct Gathered {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> keys;
  std::vector<std::uint8_t> dense_heads;
};

// counts of the lists and of the heads that each rank has.
Gathered gather(comm::Comm& group, const KeyLists& own, std::span<const std::int64_t> lists,
                std::span<const std::int64_t> heads, const comm::Where& where) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i + 1 < own.offsets.size(); ++i) lengths.push_back(own.offsets[i + 1] - own.offsets[i]);
  Gathered all;
  std::vector<std::int64_t> keys;
  lengths = gather_blocks<std::int64_t>(group, lengths, lists, where);
  auto length = lengths.begin();
  for (const std::int64_t count : lists) {
    keys.push_back(std::accumulate(length, length + count, std::int64_t{0}));
    length += count;
  }
  for (const std::int64_t each : lengths) all.offsets.push_back(all.offsets.back() + each);
  all.keys = gather_blocks<std::int32_t>(group, own.keys, keys, where);
  all.dense_heads = gather_blocks<std::uint8_t>(group, own.dense_heads, heads, where);
  return all;
}

}  // namespace

void largest(comm::Comm& group, std::span<double> values, const comm::Where& where) {
  const std::vector<std::int64_t> counts(sized(group.size()), static_cast<std::int64_t>(values.size()));
  const std::vector<double> all = gather_blocks<double>(group, values, counts, where);
  for (std::size_t i = 0; i < all.size(); ++i) {
    values[i % values.size()] = std::max(values[i % values.size()], all[i]);
  }
}

KeyLists gather_items(comm::Comm& group, const KeyLists& own, const comm::Where& where) {
  if (group.size() == 1) return own;
  const std::vector<std::int64_t> one(sized(group.size()), 1);
  std::vector<std::int64_t> lists, heads;
  KeyLists all = own;
  all.batch = 0;
  for (const std::int64_t items : gather_blocks<std::int64_t>(group, std::span(&own.batch, 1), one, where)) {
    heads.push_back(items * own.heads);
    lists.push_back(heads.back() * own.groups());
    all.batch += items;
  }
  Gathered gathered = gather(group, own, lists, heads, where);
  all.offsets = std::move(gathered.offsets);
  all.keys = std::move(gathered.keys);
  all.dense_heads = std::move(gathered.dense_heads);
  all.check();
  return all;
}

KeyLists gather_shares(comm::Comm& group, const KeyLists& own, std::span<const Had> had,
                       const std::vector<std::int32_t>& group_starts, const comm::Where& where) {
  REEL_CHECK(static_cast<int>(had.size()) == group.size());
  std::vector<std::int64_t> lists, heads;
  std::int64_t all_heads = 0;
  for (const Had& each : had) {
    heads.push_back(own.batch * (each.last_head - each.first_head));
    lists.push_back(heads.back() * (each.last_group - each.first_group));
    all_heads = std::max(all_heads, each.last_head);
  }
  const Gathered all = gather(group, own, lists, heads, where);
  const std::int64_t groups = static_cast<std::int64_t>(group_starts.size()) - 1;
  // Where a list, and whether a head is dense, is found.
  std::vector<std::size_t> place(sized(own.batch * all_heads * groups));
  std::vector<std::uint8_t> dense(sized(own.batch * all_heads));
  std::size_t list = 0, head = 0;
  for (const Had& each : had) {
    for (std::int64_t b = 0; b < own.batch; ++b) {
      for (std::int64_t h = each.first_head; h < each.last_head; ++h) {
        if (each.last_group > each.first_group) dense[sized(b * all_heads + h)] = all.dense_heads[head];
        ++head;
        for (std::int64_t g = each.first_group; g < each.last_group; ++g) {
          place[sized((b * all_heads + h) * groups + g)] = list++;
        }
      }
    }
  }
  lists::KeyListsBuilder builder(own.batch, all_heads, own.keys_tokens, group_starts, own.granularity);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] != 0) {
      builder.add_dense_head();
      continue;
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = place[i * sized(groups) + sized(g)];
      builder.add(std::span(all.keys).subspan(sized(all.offsets[at]), sized(all.offsets[at + 1] - all.offsets[at])));
    }
  }
  return builder.finish();
}

}  // namespace reel::parallel
