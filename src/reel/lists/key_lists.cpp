#include "reel/lists/key_lists.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/lists/draw.h"

namespace reel::lists {

namespace {

std::string name_of(const KeyLists& lists, std::size_t list) {
  const auto groups = sized(lists.groups());
  const auto heads = sized(lists.heads);
  return fmt::format("list of batch item {}, head {}, group {}", list / groups / heads, list / groups % heads,
                     list % groups);
}

// Tokens of the last entry are fewer when it is a short tile.
std::int64_t tokens_of(std::span<const std::int32_t> list, std::int64_t keys_tokens, int granularity) {
  auto tokens = static_cast<std::int64_t>(list.size()) * granularity;
  if (!list.empty()) tokens -= std::max<std::int64_t>(0, (list.back() + std::int64_t{1}) * granularity - keys_tokens);
  return tokens;
}

// Checks what lists have before their offsets and keys are made.
void check_sizes(const KeyLists& lists) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (lists.batch < 0 || lists.heads < 0 || lists.batch > kMost || lists.heads > kMost) {
    throw Error(fmt::format("key lists with {} batch items and {} heads", lists.batch, lists.heads),
                "neither may be negative, and both are counted in 32 bits");
  }
  if (lists.granularity != 1 && lists.granularity != kTileKeys) {
    throw Error(fmt::format("key lists have granularity {}", lists.granularity),
                fmt::format("an entry is 1 token or a tile of {} tokens", kTileKeys));
  }
  if (lists.keys_tokens < 0 || lists.keys_tokens > kMost) {
    throw Error(fmt::format("key lists over {} keys", lists.keys_tokens), "keys are counted in 32 bits");
  }
  if (lists.group_starts.empty() || lists.group_starts.front() != 0) {
    throw Error(lists.group_starts.empty()
                    ? "key lists have no group_starts"
                    : fmt::format("group_starts of key lists begin with {}", lists.group_starts.front()),
                "they begin with 0 and end with the number of queries");
  }
  for (std::size_t g = 0; g + 1 < lists.group_starts.size(); ++g) {
    if (lists.group_starts[g + 1] <= lists.group_starts[g]) {
      throw Error(fmt::format("group {} of key lists starts at query {} and ends at {}", g, lists.group_starts[g],
                              lists.group_starts[g + 1]),
                  "group_starts must ascend: every group has at least one query");
    }
  }
  // Sums of pairs fit 64 bits then.
  if (static_cast<double>(lists.batch) * static_cast<double>(lists.heads) * static_cast<double>(lists.queries()) *
          static_cast<double>(lists.keys_tokens) >
      0x1p62) {
    throw Error(fmt::format("key lists for batch {}, {} heads, {} queries, {} keys", lists.batch, lists.heads,
                            lists.queries(), lists.keys_tokens),
                "there may be 2^62 pairs of queries and keys at most");
  }
}

}  // namespace

std::int64_t KeyLists::tokens(std::int64_t b, std::int64_t h, std::int64_t g) const {
  return dense(b, h) ? keys_tokens : tokens_of(list(b, h, g), keys_tokens, granularity);
}

void KeyLists::tokens(std::int64_t b, std::int64_t h, std::int64_t g, std::vector<std::int32_t>& out) const {
  out.clear();
  if (dense(b, h)) {
    out.resize(sized(keys_tokens));
    std::iota(out.begin(), out.end(), 0);
    return;
  }
  for (const std::int64_t entry : list(b, h, g)) {
    const std::int64_t last = std::min((entry + 1) * granularity, keys_tokens);
    for (std::int64_t key = entry * granularity; key < last; ++key) out.push_back(static_cast<std::int32_t>(key));
  }
}

std::int64_t KeyLists::pairs(std::int64_t b, std::int64_t h) const {
  if (dense(b, h)) return queries() * keys_tokens;
  std::int64_t sum = 0;
  for (std::int64_t g = 0; g < groups(); ++g) {
    const auto i = sized(g);
    sum += (group_starts[i + 1] - group_starts[i]) * tokens(b, h, g);
  }
  return sum;
}

std::int64_t KeyLists::pairs() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < batch * heads; ++i) sum += pairs(i / heads, i % heads);
  return sum;
}

double KeyLists::density() const {
  const double all = static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(queries()) *
                     static_cast<double>(keys_tokens);
  return all > 0 ? static_cast<double>(pairs()) / all : 1.0;
}

void KeyLists::check() const {
  check_sizes(*this);
  const auto head_count = sized(batch) * sized(heads);
  if (dense_heads.size() != head_count) {
    throw Error(fmt::format("key lists have {} dense_heads flags for {} x {} heads", dense_heads.size(), batch, heads),
                "one flag per batch item and head");
  }
  const std::size_t count = head_count * sized(groups());
  if (offsets.size() != count + 1) {
    throw Error(fmt::format("key lists have {} offsets, expected {}", offsets.size(), count + 1),
                "one list per batch item, head and group, and the end of the last");
  }
  if (offsets.front() != 0) {
    throw Error(fmt::format("offsets of key lists begin with {}", offsets.front()), "the first list begins at key 0");
  }
  // All offsets before any entry: a list is read only when it is known to lie inside keys.
  for (std::size_t i = 0; i < count; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      throw Error(
          fmt::format("offsets go backwards at the {}: {} after {}", name_of(*this, i), offsets[i + 1], offsets[i]),
          "offsets must not descend");
    }
  }
  if (offsets.back() != static_cast<std::int64_t>(keys.size())) {
    throw Error(fmt::format("the last offset of key lists is {}, but there are {} keys", offsets.back(), keys.size()),
                "the last offset is the end of the last list");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = sized(offsets[i]), last = sized(offsets[i + 1]);
    if (first == last) continue;
    if (dense_heads[i / sized(groups())] != 0) {
      throw Error(fmt::format("the {} belongs to a dense head but names {} keys", name_of(*this, i), last - first),
                  "a dense head attends to all keys: leave its lists empty, or clear its dense_heads flag");
    }
    bool wrong = keys[first] < 0 || keys[last - 1] >= entries();
    for (std::size_t j = first + 1; j < last; ++j) wrong |= keys[j] <= keys[j - 1];  // vectorised: a tenth of a ns each
    if (!wrong) continue;
    for (std::size_t j = first; j < last; ++j) {
      if (keys[j] < 0 || keys[j] >= entries()) {
        throw Error(
            fmt::format("the {} names key {} of {}", name_of(*this, i), keys[j], entries()),
            granularity == 1 ? "keys are counted from 0 in tokens" : "keys are counted from 0 in tiles of 64 tokens");
      }
      if (j > first && keys[j] == keys[j - 1]) {
        throw Error(fmt::format("the {} names key {} twice", name_of(*this, i), keys[j]), "remove the duplicate");
      }
      if (j > first && keys[j] < keys[j - 1]) {
        throw Error(fmt::format("the {} is not sorted: key {} after {}", name_of(*this, i), keys[j], keys[j - 1]),
                    "sort every list in ascending order");
      }
    }
  }
}

std::vector<std::int32_t> uniform_groups(std::int64_t queries, std::int64_t size) {
  if (size < 1) throw Error(fmt::format("groups of {} queries", size), "a group has at least one query");
  if (queries < 0 || queries > std::numeric_limits<std::int32_t>::max()) {
    throw Error(fmt::format("{} queries", queries), "queries are counted in 32 bits");
  }
  std::vector<std::int32_t> starts;
  for (std::int64_t q = 0; q < queries; q += size) starts.push_back(static_cast<std::int32_t>(q));
  starts.push_back(static_cast<std::int32_t>(queries));
  return starts;
}

KeyLists dense_lists(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
  KeyListsBuilder builder(batch, heads, keys, uniform_groups(queries, std::max<std::int64_t>(1, queries)));
  for (std::int64_t i = 0; i < batch * heads; ++i) builder.add_dense_head();
  return builder.finish();
}

KeyListsBuilder::KeyListsBuilder(std::int64_t batch, std::int64_t heads, std::int64_t keys_tokens,
                                 std::vector<std::int32_t> group_starts, int granularity) {
  lists_.batch = batch;
  lists_.heads = heads;
  lists_.keys_tokens = keys_tokens;
  lists_.granularity = granularity;
  lists_.group_starts = std::move(group_starts);
  check_sizes(lists_);
  lists_.offsets = {0};
  lists_.dense_heads.assign(sized(batch * heads), 0);
}

void KeyListsBuilder::add(std::span<const std::int32_t> entries) {
  lists_.keys.insert(lists_.keys.end(), entries.begin(), entries.end());
  lists_.offsets.push_back(static_cast<std::int64_t>(lists_.keys.size()));
}

void KeyListsBuilder::add_dense_head() {
  const std::int64_t lists = static_cast<std::int64_t>(lists_.offsets.size()) - 1, groups = lists_.groups();
  if (groups > 0) {
    if (lists % groups != 0 || lists / groups >= lists_.batch * lists_.heads) {
      throw Error(fmt::format("key lists: a dense head after {} lists of {} heads with {} groups each", lists,
                              lists_.batch * lists_.heads, groups),
                  "add all lists of a head, or the head as a dense one");
    }
    lists_.dense_heads[sized(lists / groups)] = 1;
  } else {
    std::fill(lists_.dense_heads.begin(), lists_.dense_heads.end(), std::uint8_t{1});
  }
  lists_.offsets.insert(lists_.offsets.end(), sized(groups), lists_.offsets.back());
}

void KeyListsBuilder::add_head(const KeyLists& lists, std::int64_t b, std::int64_t h) {
  if (lists.dense(b, h)) return add_dense_head();
  for (std::int64_t g = 0; g < lists.groups(); ++g) add(lists.list(b, h, g));
}

KeyLists KeyListsBuilder::finish() {
  lists_.check();
  return std::move(lists_);
}

QueryLists transpose(const KeyLists& lists) {
  lists.check();
  QueryLists out{lists.batch, lists.heads, lists.entries(), {}, std::vector<std::int32_t>(lists.keys.size())};
  const auto entries = sized(out.entries), groups = sized(lists.groups());
  const std::size_t heads = lists.dense_heads.size();
  out.offsets.assign(heads * entries + 1, 0);
  // Count, sum, place: groups come out ascending because lists are visited in order.
  const auto visit = [&](auto&& f) {
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t i = head * groups + g;
        for (std::int64_t j = lists.offsets[i]; j < lists.offsets[i + 1]; ++j) {
          f(head * entries + sized(lists.keys[sized(j)]), static_cast<std::int32_t>(g));
        }
      }
    }
  };
  visit([&](std::size_t at, std::int32_t) { ++out.offsets[at + 1]; });
  for (std::size_t i = 1; i < out.offsets.size(); ++i) out.offsets[i] += out.offsets[i - 1];
  std::vector<std::int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  visit([&](std::size_t at, std::int32_t g) { out.groups[sized(next[at]++)] = g; });
  return out;
}

KeyLists random_lists(std::int64_t batch, std::int64_t heads, std::int64_t keys_tokens,
                      std::vector<std::int32_t> group_starts, double share, int granularity, std::uint64_t seed) {
  if (!(share >= 0 && share <= 1))
    throw Error(fmt::format("a share of {} of the keys", share), "use a number from 0 to 1");
  const std::size_t starts = group_starts.size();
  KeyListsBuilder builder(batch, heads, keys_tokens, std::move(group_starts), granularity);
  const std::int64_t lists = batch * heads * (static_cast<std::int64_t>(starts) - 1);
  const std::int64_t entries = (keys_tokens + granularity - 1) / granularity;
  const std::int64_t want = std::llround(share * static_cast<double>(entries));
  const Random random(seed);
  std::vector<std::int32_t> list;
  std::uint64_t draw = 0;
  for (std::int64_t i = 0; i < lists; ++i) {
    draw_list(random, draw, entries, want, {}, list);
    builder.add(list);
  }
  return builder.finish();
}

}  // namespace reel::lists
