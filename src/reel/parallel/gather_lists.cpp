#include "reel/parallel/gather_lists.h"

#include <numeric>
#include <type_traits>

namespace reel::parallel {

using lists::KeyLists;

KeyLists gather_items(comm::Comm& group, const KeyLists& own, const comm::Where& where) {
  if (group.size() == 1) return own;
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto gather = [&](const auto& values, const std::vector<std::int64_t>& counts) {
    using Value = std::remove_cvref_t<decltype(values[0])>;
    std::vector<std::int64_t> bytes;
    std::int64_t all = 0;
    for (const std::int64_t count : counts) bytes.push_back(count * std::int64_t{sizeof(Value)}), all += count;
    std::vector<Value> gathered(static_cast<std::size_t>(all));
    group.all_gather_v(values.data(), gathered.data(), bytes, where);
    return gathered;
  };
  std::vector<std::int64_t> lengths;  // of the lists
  for (std::size_t i = 0; i + 1 < own.offsets.size(); ++i) lengths.push_back(own.offsets[i + 1] - own.offsets[i]);
  const std::vector<std::int64_t> one(ranks, 1);
  const std::vector<std::int64_t> items = gather(std::vector<std::int64_t>{own.batch}, one);
  const std::vector<std::int64_t> keys = gather(std::vector<std::int64_t>{own.offsets.back()}, one);
  std::vector<std::int64_t> heads, lists;
  for (const std::int64_t count : items)
    heads.push_back(count * own.heads), lists.push_back(heads.back() * own.groups());
  KeyLists all = own;
  all.batch = std::accumulate(items.begin(), items.end(), std::int64_t{0});
  all.keys = gather(own.keys, keys);
  all.dense_heads = gather(own.dense_heads, heads);
  all.offsets = {0};
  for (const std::int64_t length : gather(lengths, lists)) all.offsets.push_back(all.offsets.back() + length);
  all.check();
  return all;
}

}  // namespace reel::parallel
