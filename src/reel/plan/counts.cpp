#include "reel/plan/counts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reel/base/sized.h"
#include "reel/cost/device.h"

namespace reel::plan {

using lists::KeyLists;

GroupCost group_cost(const cost::Machine& machine, std::int64_t group_queries, std::int64_t head_dim) {
  const double floats = static_cast<double>(group_queries * head_dim);
  GroupCost cost{0, 4 * floats / machine.peak_all};
  // q is read, out is written, and read and written again when it is merged with what other keys gave.
  if (!machine.levels.empty() && machine.levels.back().copy > 0) {
    cost.fixed = 4 * sizeof(float) * floats / machine.levels.back().copy;
  }
  return cost;
}

GroupCost group_cost(const cost::Cluster& cluster, std::int64_t group_queries, std::int64_t head_dim) {
  // The line through the device's times for all keys and for half of them.
  constexpr std::int64_t kGroups = 1024, kKeys = 1 << 16;
  const cost::DeviceCost device(cluster.device);
  cost::SparseAttention all;
  all.heads = 1, all.queries = kGroups * group_queries, all.keys = kKeys, all.head_dim = head_dim;
  all.group = group_queries;
  cost::SparseAttention half = all;
  half.sparsity = 0.5;
  const double seconds = device.seconds(all, cost::Direction::kForward);
  GroupCost cost;
  cost.per_key =
      (seconds - device.seconds(half, cost::Direction::kForward)) / (0.5 * static_cast<double>(kGroups * kKeys));
  cost.fixed = std::max(0.0, (seconds - device.launch_seconds()) / static_cast<double>(kGroups) -
                                 cost.per_key * static_cast<double>(kKeys));
  return cost;
}

std::int64_t Counts::tokens() const { return std::accumulate(row_tokens.begin(), row_tokens.end(), std::int64_t{0}); }

std::vector<double> Counts::head_work(int visits) const {
  std::vector<double> work(sized(heads), 0.0);
  const double each = cost.fixed * static_cast<double>(batch) * visits;
  for (std::size_t i = 0; i < row_keys.size(); ++i) {
    const std::size_t head = i / sized(rows), row = i % sized(rows);
    if (row_keys[i] != 0) work[head] += each + cost.per_key * static_cast<double>(row_scale[row]) * row_keys[i];
  }
  return work;
}

namespace {

void check_countable(const KeyLists& lists) {
  if (lists.batch < 1 || lists.heads < 1 || lists.queries() < 1 || lists.keys_tokens < 1) {
    throw Error(fmt::format("key lists of {} batch items, {} heads, {} queries and {} keys", lists.batch, lists.heads,
                            lists.queries(), lists.keys_tokens),
                "a plan needs at least one of each");
  }
  const bool any = !lists.keys.empty() || std::any_of(lists.dense_heads.begin(), lists.dense_heads.end(),
                                                      [](auto dense) { return dense != 0; });
  if (!any) throw Error("the lists are empty: no query attends to any key", "there is no work to plan; check the mask");
}

// Adds the keys of one list to the columns of its row.
void add_list(const KeyLists& lists, std::int64_t b, std::int64_t h, std::int64_t g,
              const std::vector<std::int32_t>& column_of, std::uint16_t* columns) {
  const std::int64_t last = lists.entries() - 1, short_by = lists.entries() * lists.granularity - lists.keys_tokens;
  const auto per_block = static_cast<std::uint32_t>(kBlockTokens / lists.granularity);
  for (const std::int32_t entry : lists.list(b, h, g)) {
    const std::int64_t tokens = lists.granularity - (entry == last ? short_by : 0);
    std::uint16_t& sum = columns[column_of[static_cast<std::uint32_t>(entry) / per_block]];
    sum = static_cast<std::uint16_t>(sum + tokens);
  }
}

// The column of each of `blocks`: several blocks share one where they are many for `ranks`, else each has its own.
std::vector<std::int32_t> columns_of_blocks(std::int64_t blocks, std::int64_t ranks) {
  const std::int64_t enough = (std::max<std::int64_t>(4 * ranks, 128) + ranks - 1) / ranks * ranks;
  const std::int64_t columns = blocks < 2 * enough ? blocks : enough;
  std::vector<std::int32_t> column;
  for (std::int64_t b = 0; b < blocks; ++b)
    column.push_back(static_cast<std::int32_t>(((b + 1) * columns - 1) / blocks));
  return column;
}

void add_sums(Counts& work) {
  work.words = (work.columns + 63) / 64;
  work.row_keys.assign(sized(work.heads * work.rows), 0);
  work.filled.assign(work.row_keys.size() * sized(work.words), 0);
  for (std::size_t i = 0; i < work.row_keys.size(); ++i) {
    const std::uint16_t* keys = work.keys.data() + i * sized(work.columns);
    std::uint64_t* filled = work.filled.data() + i * sized(work.words);
    for (std::int64_t c = 0; c < work.columns; ++c) {
      work.row_keys[i] += keys[c];
      filled[c / 64] |= std::uint64_t{keys[c] != 0} << (c % 64);
    }
  }
}

}  // namespace

Counts count_work(const KeyLists& lists, const GroupCost& cost, std::int64_t ranks) {
  if (ranks < 1) throw Error(fmt::format("a plan over {} ranks", ranks), "use at least one rank");
  lists.check();
  check_countable(lists);
  Counts work;
  work.heads = lists.heads, work.rows = lists.groups(), work.batch = lists.batch, work.cost = cost;
  work.blocks = (lists.keys_tokens + kBlockTokens - 1) / kBlockTokens;
  work.column_of = columns_of_blocks(work.blocks, ranks);
  work.columns = work.column_of.back() + 1;
  work.column_tokens.assign(sized(work.columns), 0);
  for (std::int64_t b = 0; b < work.blocks; ++b) {
    const std::int64_t tokens = std::min(kBlockTokens, lists.keys_tokens - b * kBlockTokens);
    work.column_tokens[sized(work.column_of[sized(b)])] += static_cast<std::int32_t>(tokens);
  }
  const std::int64_t most = *std::max_element(work.column_tokens.begin(), work.column_tokens.end());
  if (most * lists.batch > std::numeric_limits<std::uint16_t>::max()) {
    throw Error(fmt::format("lists of {} batch items over {} keys are too many to plan at once", lists.batch,
                            lists.keys_tokens),
                "plan the batch items one by one");
  }
  std::int32_t largest = 1;
  for (std::int64_t row = 0; row < work.rows; ++row) {
    const auto at = sized(row);
    work.row_tokens.push_back(lists.group_starts[at + 1] - lists.group_starts[at]);
    largest = std::max(largest, work.row_tokens.back());
  }
  for (const std::int32_t tokens : work.row_tokens)
    work.row_scale.push_back(static_cast<float>(tokens) / static_cast<float>(largest));
  work.keys.assign(sized(work.heads * work.rows * work.columns), 0);
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    for (std::int64_t h = 0; h < lists.heads; ++h) {
      for (std::int64_t g = 0; g < work.rows; ++g) {
        std::uint16_t* columns = work.keys.data() + (h * work.rows + g) * work.columns;
        if (lists.dense(b, h)) {
          for (std::size_t c = 0; c < work.column_tokens.size(); ++c)
            columns[c] = static_cast<std::uint16_t>(columns[c] + work.column_tokens[c]);
        } else {
          add_list(lists, b, h, g, work.column_of, columns);
        }
      }
    }
  }
  add_sums(work);
  return work;
}

KeyLists lists_of_mask(std::span<const std::uint8_t> mask, std::int64_t heads, std::int64_t rows,
                       std::int64_t columns) {
  REEL_CHECK(mask.size() == sized(heads * rows * columns));
  lists::KeyListsBuilder builder(1, heads, columns * kBlockTokens,
                                 lists::uniform_groups(rows * kBlockTokens, kBlockTokens), lists::kTileKeys);
  std::vector<std::int32_t> list;
  for (std::int64_t i = 0; i < heads * rows; ++i) {
    list.clear();
    for (std::int64_t c = 0; c < columns; ++c) {
      if (mask[sized(i * columns + c)] != 0) list.push_back(static_cast<std::int32_t>(c));
    }
    builder.add(list);
  }
  return builder.finish();
}

}  // namespace reel::plan
