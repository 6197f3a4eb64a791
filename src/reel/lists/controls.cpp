#include "reel/lists/controls.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/lists/draw.h"

namespace reel::lists {

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

}  // namespace

std::int64_t budget_of(double share, std::int64_t n) {
  // 0.29 * 100 is a little less than 29.
  const double count = std::floor(share * static_cast<double>(n) * (1 + 1e-12));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 0, n);
}

std::vector<std::int32_t> held_tokens(std::int64_t first, std::int64_t end, std::span<const std::int32_t> always) {
  std::vector<std::int32_t> own(sized(end - first)), held;
  std::iota(own.begin(), own.end(), static_cast<std::int32_t>(first));
  std::set_union(own.begin(), own.end(), always.begin(), always.end(), std::back_inserter(held));
  return held;
}

std::vector<std::int32_t> held_tokens(const TokenOrder& order, std::int64_t g, std::span<const std::int32_t> always) {
  return held_tokens(order.group_starts[sized(g)], order.group_starts[sized(g) + 1], always);
}

double held_share(const TokenOrder& order, std::span<const std::int32_t> always, int granularity) {
  double sum = 0;
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    std::int32_t last = -1;
    for (const std::int32_t token : held_tokens(order, g, always)) {
      sum += token / granularity != last ? granularity : 0;
      last = token / granularity;
    }
  }
  return sum / static_cast<double>(order.groups() * order.tokens());
}

KeyLists mixed_items(const KeyLists& lists, const KeyLists& others, std::span<const std::uint8_t> others_of) {
  REEL_CHECK(lists.granularity == others.granularity && lists.group_starts == others.group_starts);
  KeyListsBuilder builder(lists.batch, lists.heads, lists.keys_tokens, lists.group_starts, lists.granularity);
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    for (std::int64_t h = 0; h < lists.heads; ++h) builder.add_head(others_of[sized(b)] != 0 ? others : lists, b, h);
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

KeyLists own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads,
                   std::span<const std::int32_t> always) {
  std::vector<std::vector<std::int32_t>> lists;
  for (std::int64_t g = 0; g < order.groups(); ++g) lists.push_back(held_tokens(order, g, always));
  return repeated(order, batch, heads, lists);
}

KeyLists window_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                      std::span<const std::int32_t> always) {
  std::vector<std::vector<std::int32_t>> lists;
  std::vector<std::pair<double, std::int32_t>> near(sized(order.tokens()));
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    const std::vector<double> distances = squared_distances(order, g);
    for (std::size_t i = 0; i < near.size(); ++i) near[i] = {distances[i], static_cast<std::int32_t>(i)};
    const std::vector<std::int32_t> held = held_tokens(order, g, always);
    for (const std::int32_t token : held) near[sized(token)].first = -1;
    const std::size_t kept = std::max(sized(budget_of(share, order.tokens())), held.size());
    std::nth_element(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(kept - 1), near.end());
    std::vector<std::int32_t> list;
    for (std::size_t i = 0; i < kept; ++i) list.push_back(near[i].second);
    std::sort(list.begin(), list.end());
    lists.push_back(std::move(list));
  }
  return repeated(order, batch, heads, lists);
}

KeyLists random_own_lists(const TokenOrder& order, std::int64_t batch, std::int64_t heads, double share,
                          std::uint64_t seed, std::span<const std::int32_t> always, std::int64_t before) {
  const Random random(seed);
  const std::int64_t tokens = order.tokens(), budget = budget_of(share, tokens);
  std::vector<std::vector<std::int32_t>> held;
  for (std::int64_t g = 0; g < order.groups(); ++g) held.push_back(held_tokens(order, g, always));
  KeyListsBuilder builder(batch, heads, tokens, order.group_starts);
  std::vector<std::int32_t> list;
  std::uint64_t draw = 0;
  for (std::int64_t i = 0; i < (before + batch) * heads; ++i) {
    for (const std::vector<std::int32_t>& kept : held) {
      draw_list(random, draw, tokens, budget, kept, list);
      if (i >= before * heads) builder.add(list);
    }
  }
  return builder.finish();
}

}  // namespace reel::lists
