#include "sparsity/lists.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace reel::sparsity {

using attention::KeyLists;
using attention::KeyListsBuilder;

namespace {

// The same lists for every batch entry and head.
KeyLists repeated(const TokenOrder& order, std::int64_t batch, std::int64_t heads,
                  const std::vector<std::vector<std::int32_t>>& lists) {
  KeyListsBuilder builder(batch, heads, order.tokens(), order.group_starts);
  for (std::int64_t i = 0; i < batch * heads; ++i) {
    for (const auto& list : lists) builder.add(list);
  }
  return builder.finish();
}

std::int64_t count_of(const TokenOrder& order, double share) {
  const double count = std::ceil(share * static_cast<double>(order.tokens()));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 1, order.tokens());
}

std::vector<std::int32_t> own_tile(const TokenOrder& order, std::int64_t g) {
  const std::int32_t first = order.group_starts[static_cast<std::size_t>(g)];
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(order.group_starts[static_cast<std::size_t>(g) + 1] - first));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace

KeyLists with_own_tile(const KeyLists& chosen, std::span<const std::int32_t> always) {
  KeyListsBuilder builder(chosen.batch, chosen.heads, chosen.keys_tokens, chosen.group_starts, chosen.granularity);
  std::vector<std::int32_t> merged, more, kept;
  for (const std::int32_t token : always) {
    if (kept.empty() || kept.back() != token / chosen.granularity) kept.push_back(token / chosen.granularity);
  }
  for (std::int64_t b = 0; b < chosen.batch; ++b) {
    for (std::int64_t h = 0; h < chosen.heads; ++h) {
      if (chosen.dense(b, h)) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < chosen.groups(); ++g) {
        // The entries that the own tile touches.
        const std::int32_t first = chosen.group_starts[static_cast<std::size_t>(g)] / chosen.granularity;
        const std::int32_t last =
            (chosen.group_starts[static_cast<std::size_t>(g) + 1] + chosen.granularity - 1) / chosen.granularity;
        const auto list = chosen.list(b, h, g);
        const auto before = std::lower_bound(list.begin(), list.end(), first);
        const auto after = std::lower_bound(before, list.end(), last);
        merged.assign(list.begin(), before);
        for (std::int32_t entry = first; entry < last; ++entry) merged.push_back(entry);
        merged.insert(merged.end(), after, list.end());
        if (!kept.empty()) {
          more.clear();
          std::set_union(merged.begin(), merged.end(), kept.begin(), kept.end(), std::back_inserter(more));
          merged.swap(more);
        }
        builder.add(merged);
      }
    }
  }
  return builder.finish();
}

std::vector<std::int32_t> tokens_of_frames(const TokenOrder& order, std::span<const std::int64_t> frames) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < order.tokens(); ++i) {
    if (std::find(frames.begin(), frames.end(), order.position(i)[0]) != frames.end()) {
      tokens.push_back(static_cast<std::int32_t>(i));
    }
  }
  return tokens;
}

KeyLists own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads) {
  std::vector<std::vector<std::int32_t>> lists;
  for (std::int64_t g = 0; g < order.groups(); ++g) lists.push_back(own_tile(order, g));
  return repeated(order, batch, heads, lists);
}

KeyLists window_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share) {
  const std::int64_t count = count_of(order, share);
  std::vector<std::vector<std::int32_t>> lists;
  std::vector<std::pair<double, std::int32_t>> near(static_cast<std::size_t>(order.tokens()));
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    std::vector<std::int32_t> list = own_tile(order, g);
    std::array<double, 3> middle{};
    for (const std::int32_t token : list) {
      for (int axis = 0; axis < 3; ++axis) {
        middle[axis] += static_cast<double>(order.position(token)[axis]) / static_cast<double>(list.size());
      }
    }
    for (std::int64_t i = 0; i < order.tokens(); ++i) {
      const auto p = order.position(i);
      double distance = 0;
      for (int axis = 0; axis < 3; ++axis) distance += std::pow(static_cast<double>(p[axis]) - middle[axis], 2);
      const bool own = i >= list.front() && i <= list.back();
      near[static_cast<std::size_t>(i)] = {own ? -1.0 : distance, static_cast<std::int32_t>(i)};
    }
    const std::int64_t kept = std::max<std::int64_t>(count, static_cast<std::int64_t>(list.size()));
    std::nth_element(near.begin(), near.begin() + (kept - 1), near.end());
    list.clear();
    for (std::int64_t i = 0; i < kept; ++i) list.push_back(near[static_cast<std::size_t>(i)].second);
    std::sort(list.begin(), list.end());
    lists.push_back(std::move(list));
  }
  return repeated(order, batch, heads, lists);
}

KeyLists random_own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                          std::uint64_t seed) {
  // The own tile is part of the budget.
  const double tile = static_cast<double>(order.tokens()) / static_cast<double>(order.groups());
  const double rest = std::max(0.0, share - tile / static_cast<double>(order.tokens()));
  return with_own_tile(attention::random_lists(batch, heads, order.tokens(), order.group_starts, rest, 1, seed));
}

}  // namespace reel::sparsity
