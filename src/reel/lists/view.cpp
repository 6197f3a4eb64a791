#include "reel/lists/view.h"

#include <algorithm>
#include <numeric>

#include "reel/base/sized.h"

namespace reel::lists {

namespace {

std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> index(sized(end - begin));
  std::iota(index.begin(), index.end(), static_cast<std::int32_t>(begin));
  return index;
}

}  // namespace

ListsView::ListsView(const KeyLists& lists) { look_at({std::shared_ptr<const void>(), &lists}); }
ListsView::ListsView(KeyLists&& lists) { look_at(std::make_shared<const KeyLists>(std::move(lists))); }

void ListsView::look_at(std::shared_ptr<const KeyLists> lists) {
  lists->check();
  lists_ = std::move(lists);
  items_ = range(0, lists_->batch);
  heads_ = range(0, lists_->heads);
  groups_ = range(0, lists_->groups());
  group_starts_ = lists_->group_starts;
  end_ = lists_->keys_tokens;
}

ListsView ListsView::with(Index ListsView::*axis, std::span<const std::int32_t> chosen) const {
  if (lists_ == nullptr) return {};
  ListsView part = *this;
  (part.*axis).clear();
  for (const std::int32_t i : chosen) {
    REEL_CHECK(i >= 0 && sized(i) < (this->*axis).size());
    (part.*axis).push_back((this->*axis)[sized(i)]);
  }
  return part;
}

ListsView ListsView::with(Index ListsView::*axis, std::int64_t begin, std::int64_t end) const {
  if (lists_ == nullptr) return {};
  REEL_CHECK(begin >= 0 && begin <= end && sized(end) <= (this->*axis).size());
  return with(axis, range(begin, end));
}

ListsView ListsView::some_items(std::int64_t begin, std::int64_t end) const {
  return with(&ListsView::items_, begin, end);
}
ListsView ListsView::some_items(std::span<const std::int32_t> items) const { return with(&ListsView::items_, items); }
ListsView ListsView::some_heads(std::int64_t begin, std::int64_t end) const {
  return with(&ListsView::heads_, begin, end);
}
ListsView ListsView::some_heads(std::span<const std::int32_t> heads) const { return with(&ListsView::heads_, heads); }

ListsView ListsView::some_groups(std::span<const std::int32_t> groups) const {
  ListsView part = with(&ListsView::groups_, groups);
  if (lists_ == nullptr) return part;
  part.group_starts_ = {0};
  for (const std::int32_t g : groups) {
    const std::int64_t end =
        std::int64_t{part.group_starts_.back()} + group_starts_[sized(g) + 1] - group_starts_[sized(g)];
    REEL_CHECK(std::in_range<std::int32_t>(end));
    part.group_starts_.push_back(static_cast<std::int32_t>(end));
  }
  return part;
}

ListsView ListsView::some_queries(std::int64_t begin, std::int64_t end) const {
  if (lists_ == nullptr) return {};
  REEL_CHECK(begin >= 0 && begin <= end && end <= queries());
  ListsView part = *this;
  part.groups_.clear();
  part.group_starts_ = {0};
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::int64_t first = std::max<std::int64_t>(group_starts_[g], begin),
                       last = std::min<std::int64_t>(group_starts_[g + 1], end);
    if (first >= last) continue;
    part.groups_.push_back(groups_[g]);
    part.group_starts_.push_back(static_cast<std::int32_t>(last - begin));
  }
  return part;
}

ListsView ListsView::some_keys(std::int64_t begin, std::int64_t end) const {
  if (lists_ == nullptr) return {};
  REEL_CHECK(begin >= 0 && begin <= end && end <= keys());
  ListsView part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  return part;
}

std::span<const std::int32_t> ListsView::entries(std::int64_t b, std::int64_t h, std::int64_t g) const {
  const std::span<const std::int32_t> list = lists_->list(at(items_, b), at(heads_, h), at(groups_, g));
  if (keys() == lists_->keys_tokens) return list;
  if (keys() == 0) return {};
  const std::int64_t each = granularity();
  const auto first = std::lower_bound(list.begin(), list.end(), begin_ / each);
  return {first, std::lower_bound(first, list.end(), (end_ + each - 1) / each)};
}

std::int64_t ListsView::tokens(std::int64_t b, std::int64_t h, std::int64_t g) const {
  if (dense(b, h)) return keys();
  const std::span<const std::int32_t> list = entries(b, h, g);
  if (list.empty()) return 0;
  // The first and the last tile may be cut, or short.
  const std::int64_t each = granularity();
  return static_cast<std::int64_t>(list.size()) * each - std::max<std::int64_t>(0, begin_ - list.front() * each) -
         std::max<std::int64_t>(0, (list.back() + 1) * each - end_);
}

void ListsView::tokens(std::int64_t b, std::int64_t h, std::int64_t g, std::vector<std::int32_t>& out) const {
  out.clear();
  if (dense(b, h)) {
    out = range(0, keys());
    return;
  }
  for (const std::int64_t entry : entries(b, h, g)) {
    const std::int64_t first = std::max(entry * granularity(), begin_),
                       last = std::min((entry + 1) * granularity(), end_);
    for (std::int64_t key = first; key < last; ++key) out.push_back(static_cast<std::int32_t>(key - begin_));
  }
}

std::int64_t ListsView::pairs(std::int64_t b, std::int64_t h) const {
  if (dense(b, h)) return queries() * keys();
  std::int64_t sum = 0;
  for (std::int64_t g = 0; g < groups(); ++g) {
    sum += (group_starts_[sized(g) + 1] - group_starts_[sized(g)]) * tokens(b, h, g);
  }
  return sum;
}

std::int64_t ListsView::pairs() const {
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < batch(); ++b) {
    for (std::int64_t h = 0; h < heads(); ++h) sum += pairs(b, h);
  }
  return sum;
}

KeyLists copy_of(const ListsView& view) {
  REEL_CHECK(view && view.first_key() == 0);
  const std::span<const std::int32_t> starts = view.group_starts();
  KeyListsBuilder builder(view.batch(), view.heads(), view.keys(), {starts.begin(), starts.end()}, view.granularity());
  for (std::int64_t b = 0; b < view.batch(); ++b) {
    for (std::int64_t h = 0; h < view.heads(); ++h) {
      if (view.dense(b, h)) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < view.groups(); ++g) builder.add(view.entries(b, h, g));
    }
  }
  return builder.finish();
}

}  // namespace reel::lists
