#include "reel/sparsity/spread.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/lists/view.h"

namespace reel::sparsity {

using layout::Cut;
using lists::KeyLists;

Spread::Spread(tape::Tape& tape, parallel::Team* team, const tape::Shape& q, const Cut& tokens, const Pass& pass)
    : tape_(tape),
      team_(team),
      shape_(q),
      tokens_(tokens),
      clips_(team != nullptr && pass.training() ? pass.clips : layout::even_cut(q[0], 1)),
      heads_(layout::even_cut(q[2], tokens.parts())),
      group_(team != nullptr && pass.training() ? team->data().rank() : 0),
      training_(pass.training()) {}

parallel::Had Spread::share(int rank, const lists::TokenOrder& order) const {
  if (team_ == nullptr) return {0, shape_[2], 0, order.groups()};
  const parallel::Share share = parallel::share_of(*team_, rank, tokens_, shape_[2]);
  const auto group_at = [&](std::int64_t query) {
    const auto at = std::lower_bound(order.group_starts.begin(), order.group_starts.end(), query);
    REEL_CHECK(*at == query);  // tokens rest in whole query groups
    return at - order.group_starts.begin();
  };
  return {share.first_head, share.last_head, group_at(share.first_query), group_at(share.last_query)};
}

// Block r is of cut.size(r) * each values, which the first ranks of those that decide together have.
std::vector<std::int64_t> Spread::first_ranks(const Cut& cut, std::int64_t each) const {
  std::vector<std::int64_t> counts(sized(together().size()), 0);
  for (int r = 0; r < cut.parts(); ++r) counts[sized(r)] = cut.size(r) * each;
  return counts;
}

void Spread::largest(std::span<double> values) const {
  if (team_ != nullptr) parallel::largest(together(), values, where());
}

Spread::Heads Spread::by_heads(const float* x) const {
  if (team_ == nullptr) return {0, shape_[2], x};
  if (training_ && group_ != 0) return {};
  tape::Shape shape = shape_;
  if (training_) shape[0] = 1;
  const tape::Tensor own = tape_.copy_in(shape, {x, sized(tape::elements(shape))});
  const tape::Tensor all = parallel::switch_shard(tape_, team_->sequence(), own, 1, tokens_, 2, heads_);
  return {heads_.begin(rank()), heads_.size(rank()), all.data(), all};
}

Spread::Rows Spread::rows_of_first_clip(const float* x, std::int64_t width,
                                        std::span<const std::int32_t> wanted) const {
  if (team_ == nullptr) return {x};
  REEL_CHECK(training_);
  Cut rows;  // of what is wanted, over the ranks of the first group
  rows.starts.clear();
  for (const std::int64_t start : tokens_.starts) {
    rows.starts.push_back(std::lower_bound(wanted.begin(), wanted.end(), start) - wanted.begin());
  }
  std::vector<float> own;
  if (group_ == 0) {
    for (std::int64_t i = rows.begin(rank()); i < rows.end(rank()); ++i) {
      const float* row = x + (wanted[sized(i)] - first_token()) * width;
      own.insert(own.end(), row, row + width);
    }
  }
  Rows all;
  all.held = parallel::gather_blocks<float>(together(), own, first_ranks(rows, width), where());
  all.data = all.held.data();
  return all;
}

std::vector<std::int32_t> Spread::rows_here(std::span<const std::int32_t> rows) const {
  std::vector<std::int32_t> here;
  for (const std::int32_t row : rows) {
    if (row >= first_token() && row < tokens_.end(rank())) {
      here.push_back(row - static_cast<std::int32_t>(first_token()));
    }
  }
  return here;
}

std::vector<Spread::Wants> Spread::all_rows_by_heads(std::int64_t rows) const {
  std::vector<Wants> wants;
  wants.reserve(sized(heads_.parts()));
  for (int r = 0; r < heads_.parts(); ++r) wants.push_back({heads_.begin(r), heads_.end(r), 0, rows});
  return wants;
}

predict::Predicted Spread::bring(predict::Predicted here, std::int64_t heads, std::span<const std::int32_t> rows,
                                 std::span<const Wants> wants) const {
  if (team_ == nullptr) return here;
  const std::int64_t rank_floats = here.rank, batch = here.batch;
  const auto owner = [&](std::int32_t token) {
    return static_cast<int>(std::upper_bound(tokens_.starts.begin(), tokens_.starts.end(), token) -
                            tokens_.starts.begin()) -
           1;
  };
  const int parts = tokens_.parts(), own = rank();
  // Where each row is found: its rank, and its place among the rows of that rank.
  std::vector<int> owners;
  std::vector<std::int64_t> place, count(sized(parts), 0);
  for (const std::int32_t row : rows) {
    owners.push_back(owner(row));
    place.push_back(count[sized(owners.back())]++);
  }
  // The rows of rank s that rank d wants are [begin, end) of those that s has, since both follow the list.
  const auto range = [&](int s, int d) {
    std::int64_t begin = 0, end = 0;
    for (std::int64_t i = 0; i < wants[sized(d)].last_row; ++i) {
      if (owners[sized(i)] != s) continue;
      if (i < wants[sized(d)].first_row) ++begin;
      ++end;
    }
    return std::pair{begin, end};
  };
  const auto floats = [&](int s, int d) {
    const auto [begin, end] = range(s, d);
    const std::int64_t heads_wanted = wants[sized(d)].last_head - wants[sized(d)].first_head;
    return batch * heads_wanted * (end - begin + tokens_.size(s)) * rank_floats;
  };
  std::vector<std::int64_t> send, receive;
  std::int64_t out = 0, in = 0;
  for (int r = 0; r < parts; ++r) {
    send.push_back(floats(own, r) * std::int64_t{sizeof(float)});
    receive.push_back(floats(r, own) * std::int64_t{sizeof(float)});
    out += floats(own, r), in += floats(r, own);
  }
  // For each head the wanted queries, then the keys.
  Buffer<float> packed(sized(out)), arrived(sized(in));
  float* to = packed.data();
  const std::int64_t rows_own = count[sized(own)], tokens_own = tokens_.size(own);
  for (int d = 0; d < parts; ++d) {
    const auto [begin, end] = range(own, d);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = wants[sized(d)].first_head; h < wants[sized(d)].last_head; ++h) {
        const std::int64_t at = b * heads + h;
        to = std::copy_n(here.q.data() + (at * rows_own + begin) * rank_floats, (end - begin) * rank_floats, to);
        to = std::copy_n(here.k.data() + at * tokens_own * rank_floats, tokens_own * rank_floats, to);
      }
    }
  }
  team_->sequence().all_to_all_v(packed.data(), send, arrived.data(), receive, where());
  const Wants& mine = wants[sized(own)];
  const std::int64_t members = mine.last_head - mine.first_head, scored = mine.last_row - mine.first_row;
  predict::Predicted all{batch, rank_floats, Buffer<float>(sized(batch * members * scored * rank_floats)),
                         Buffer<float>(sized(batch * members * tokens() * rank_floats))};
  std::vector<const float*> from;  // of every rank: its next head
  const float* next = arrived.data();
  from.reserve(sized(parts));
  for (int s = 0; s < parts; ++s) from.push_back(std::exchange(next, next + floats(s, own)));
  std::vector<std::int64_t> first, sizes;  // of every rank: the rows that came
  for (int s = 0; s < parts; ++s) {
    const auto [begin, end] = range(s, own);
    first.push_back(begin), sizes.push_back(end - begin);
  }
  for (std::int64_t at = 0; at < batch * members; ++at) {
    for (std::int64_t i = 0; i < scored; ++i) {
      const auto row = sized(mine.first_row + i), s = sized(owners[row]);
      std::copy_n(from[s] + (place[row] - first[s]) * rank_floats, rank_floats,
                  all.q.data() + (at * scored + i) * rank_floats);
    }
    for (int s = 0; s < parts; ++s) {
      const float* keys = from[sized(s)] + sizes[sized(s)] * rank_floats;
      from[sized(s)] = keys + tokens_.size(s) * rank_floats;
      std::copy_n(keys, tokens_.size(s) * rank_floats, all.k.data() + (at * tokens() + tokens_.begin(s)) * rank_floats);
    }
  }
  return all;
}

KeyLists Spread::of_all_shares(const KeyLists& own, const lists::TokenOrder& order,
                               std::span<const std::int32_t> groups) const {
  const parallel::Had mine = share(order);
  std::vector<parallel::Had> had;
  for (int r = 0; r < parts(); ++r) {
    parallel::Had each = share(r, order);
    each.first_group = std::lower_bound(groups.begin(), groups.end(), each.first_group) - groups.begin();
    each.last_group = std::lower_bound(groups.begin(), groups.end(), each.last_group) - groups.begin();
    had.push_back(each);
  }
  std::vector<std::int32_t> starts = {0}, here;
  for (const std::int32_t g : groups) {
    starts.push_back(starts.back() + order.group_starts[sized(g) + 1] - order.group_starts[sized(g)]);
    if (g >= mine.first_group && g < mine.last_group) here.push_back(g - static_cast<std::int32_t>(mine.first_group));
  }
  const KeyLists some = lists::copy_of(lists::ListsView(own).some_groups(here));
  return team_ == nullptr ? some : parallel::gather_shares(team_->sequence(), some, had, starts, where());
}

KeyLists Spread::whole(const KeyLists& own, const lists::TokenOrder& order) const {
  if (team_ == nullptr) return own;
  std::vector<std::int32_t> all(sized(order.groups()));
  std::iota(all.begin(), all.end(), 0);
  const KeyLists lists = of_all_shares(own, order, all);
  return training_ ? parallel::gather_items(team_->data(), lists, where()) : lists;
}

}  // namespace reel::sparsity
