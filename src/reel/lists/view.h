// A look at key lists, or at a part of them, without copying them: what attention computes over.
//
// A view has some batch items, heads and query groups of its lists, and the keys [begin, end), counted from `begin`.
// Items, heads and groups are given by index lists, a range being the simple case; queries are counted over the groups
// of the view, in its order. A range of queries may cut through a group: the group keeps its list for its share of the
// queries. A range of keys may cut through a tile.
//
// A view without lists means all keys, and so does every part of it.
//
// Lists are checked (KeyLists::check, an Error) when the first view of them is made; views and their parts can be
// trusted from then on, so the lists must not change any more. Parts check their bounds (REEL_CHECK).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "reel/base/sized.h"
#include "reel/lists/key_lists.h"

namespace reel::lists {

class ListsView {
 public:
  ListsView() = default;             // all keys
  ListsView(const KeyLists& lists);  // `lists` must outlive the view and its parts
  ListsView(KeyLists&& lists);       // the view and its parts keep the lists alive, here and below
  template <std::convertible_to<std::shared_ptr<const KeyLists>> Shared>
  ListsView(Shared lists) {  // null: all keys
    if (lists != nullptr) look_at(std::move(lists));
  }
  explicit operator bool() const { return lists_ != nullptr; }

  ListsView some_items(std::int64_t begin, std::int64_t end) const;
  ListsView some_items(std::span<const std::int32_t> items) const;
  ListsView some_heads(std::int64_t begin, std::int64_t end) const;
  ListsView some_heads(std::span<const std::int32_t> heads) const;
  ListsView some_queries(std::int64_t begin, std::int64_t end) const;
  ListsView some_groups(std::span<const std::int32_t> groups) const;
  ListsView some_keys(std::int64_t begin, std::int64_t end) const;

  // The rest is for views that have lists.
  std::int64_t batch() const { return static_cast<std::int64_t>(items_.size()); }
  std::int64_t heads() const { return static_cast<std::int64_t>(heads_.size()); }
  std::int64_t groups() const { return static_cast<std::int64_t>(groups_.size()); }
  std::int64_t queries() const { return group_starts_.back(); }
  std::int64_t keys() const { return end_ - begin_; }
  std::span<const std::int32_t> group_starts() const { return group_starts_; }  // groups + 1, from 0
  bool dense(std::int64_t b, std::int64_t h) const { return lists_->dense(at(items_, b), at(heads_, h)); }

  // The keys of one list in the order of the view: as many, and which, ascending, in place of what `out` held.
  std::int64_t tokens(std::int64_t b, std::int64_t h, std::int64_t g) const;
  void tokens(std::int64_t b, std::int64_t h, std::int64_t g, std::vector<std::int32_t>& out) const;
  // Pairs of a query and a key, of one head and of everything.
  std::int64_t pairs(std::int64_t b, std::int64_t h) const;
  std::int64_t pairs() const;

  // For kernels, which read lists in place: the entries that have a key of the view, as the whole lists count them; an
  // entry has `granularity` keys, and key 0 of the view is key `first_key` of the whole.
  std::span<const std::int32_t> entries(std::int64_t b, std::int64_t h, std::int64_t g) const;
  int granularity() const { return lists_->granularity; }
  std::int64_t first_key() const { return begin_; }

 private:
  using Index = std::vector<std::int32_t>;
  static std::int64_t at(const Index& index, std::int64_t i) { return index[sized(i)]; }
  void look_at(std::shared_ptr<const KeyLists> lists);  // all of them
  ListsView with(Index ListsView::*axis, std::span<const std::int32_t> chosen) const;
  ListsView with(Index ListsView::*axis, std::int64_t begin, std::int64_t end) const;

  std::shared_ptr<const KeyLists> lists_;
  Index items_, heads_, groups_;  // of the lists, in the order of the view
  Index group_starts_;            // of the view
  std::int64_t begin_ = 0, end_ = 0;
};

// The lists of a view of all keys, as lists of their own.
KeyLists copy_of(const ListsView& view);

}  // namespace reel::lists
