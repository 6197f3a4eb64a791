// What a kernel needs to compute one block of queries, the same for every instruction set. Strides are in floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reel/attention/cut_blocks.h"
#include "reel/base/sized.h"

namespace reel::attention {

// Keys of one block, in ascending order: token indices, or neighbours.
struct KeyRun {
  const std::int32_t* list;  // null: 0, 1, 2, ...
  std::size_t count;
  std::ptrdiff_t shift = 0;  // added to each
  std::size_t operator()(std::size_t i) const {
    return sized((list != nullptr ? list[i] : static_cast<std::ptrdiff_t>(i)) + shift);
  }
  // The keys of [from, to), counted from `from`.
  KeyRun within(std::size_t from, std::size_t to) const {
    if (list == nullptr) return {nullptr, std::min(count, to) - std::min(count, from)};
    const auto first = static_cast<std::ptrdiff_t>(from), last = static_cast<std::ptrdiff_t>(to);
    const std::int32_t* begin = std::lower_bound(list, list + count, first - shift);
    return {begin, sized(std::lower_bound(begin, list + count, last - shift) - begin), shift - first};
  }
};

template <class T>
struct Rows {
  T* data;
  std::size_t stride;
  T* operator[](std::size_t i) const { return data + i * stride; }
};

// Called after every step of keys, since a block may take tens of milliseconds: a link of 1 Gbit/s needs to be looked
// after about every millisecond to stay busy.
struct Poll {
  const Threads* threads;
  int thread;
  void operator()() const { threads->poll(thread); }
};

struct ForwardBlock {
  Rows<const float> q, k, v;  // q from the first query of the block, k and v of the whole head, or of a range of keys
  std::size_t queries, d;
  float scale;
  KeyRun keys, next;  // of this block, and of the one that follows in the same head (to fetch them early)
  Rows<float> out;
  float* lse;
  // Between ranges of keys `out` holds sums that are not normalised, and these the maximum and the sum of each query.
  float *largest, *sum;
  bool first_range, last_range;
  bool no_keys;  // in any range
  Poll poll;
};

struct BackwardBlock {
  Rows<const float> q, k, v, out, dout;
  std::size_t queries, d;
  std::size_t next_queries;  // of the block that follows, whose rows of q, dout and dq come after those of this one
  float scale;
  KeyRun keys, next;
  const float* lse;
  Rows<float> dq, dk, dv;
  bool accumulate;  // add to dq; dk and dv are always added to
  float* delta;     // per query: written for the first range of keys of a block, read for the others; may be null
  bool first_range;
  Poll poll;
};

// Lists of one thread: those of the present block and the next.
class BlockLists {
 public:
  explicit BlockLists(const lists::ListsView& lists) : lists_(lists) {}

  // Runs of work.blocks[i] and of the block after it, if that belongs to the unit too.
  std::pair<KeyRun, KeyRun> runs(const Blocks& work, const Unit& unit, std::int64_t i) {
    const KeyRun now = i == unit.first ? run(work.blocks[sized(i)]) : next_;
    next_ = i + 1 < unit.last ? run(work.blocks[sized(i + 1)]) : KeyRun{nullptr, 0};
    return {now, next_};
  }

 private:
  KeyRun run(const Block& block) {
    if (block.group < 0) return {nullptr, sized(block.tokens)};
    if (lists_.granularity() == 1) {
      const auto list = lists_.entries(block.b, block.h, block.group);
      return {list.data(), list.size(), -static_cast<std::ptrdiff_t>(lists_.first_key())};
    }
    side_ ^= 1;
    std::vector<std::int32_t>& tokens = tokens_[side_];
    lists_.tokens(block.b, block.h, block.group, tokens);
    return {tokens.data(), tokens.size()};
  }

  const lists::ListsView& lists_;
  KeyRun next_{nullptr, 0};
  std::vector<std::int32_t> tokens_[2];  // tiles written out
  int side_ = 0;
};

template <class T>
Rows<T> rows_of(const View<T>& view, std::int64_t b, std::int64_t h, std::int64_t first) {
  return {view.at(b, h, first), sized(view.row)};
}

}  // namespace reel::attention
