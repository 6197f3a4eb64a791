// Where a pass is cut over several ranks: what a controller asks the others for (model/sparse_ranks.h does it).
//
// The ranks of a sequence group have the same clips, each of them some of the tokens, consecutive ones. In training
// other groups have other clips, and all ranks decide together: what is looked at is the first clip of all, which the
// first group has. Elsewhere every group is on its own. All ranks of those that decide together call the same functions
// in the same order.
//
// Every number is computed where one rank would compute it from the same numbers in the same order: low-rank queries
// and keys row by row, what is known about a head from all tokens of that head. So decisions and lists are those of one
// rank, to the bit, wherever q and k are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/lists/key_lists.h"
#include "reel/tape/tensor.h"

namespace reel::predict {

class Ranks {
 public:
  virtual ~Ranks() = default;

  // Rank r of the sequence group has the tokens [token_starts[r], token_starts[r + 1]); `rank` is this one.
  std::vector<std::int64_t> token_starts;
  int rank = 0;
  // Group g has the clips [clip_starts[g], clip_starts[g + 1]); `group` is this one. Not in training: one group.
  std::vector<std::int64_t> clip_starts;
  int group = 0;

  // [outer][own part][inner] of every rank of the sequence group, as [outer][all][inner] on each of them; rank r has
  // [cut[r], cut[r + 1]) of the axis.
  virtual Buffer<float> gather(const Buffer<float>& own, std::span<const std::int64_t> cut, std::int64_t outer,
                               std::int64_t inner) = 0;

  // values[i] = the largest of it that any rank has.
  virtual void largest(std::span<double> values) = 0;

  // x is [clips][own tokens][heads][head_dim]. All tokens of the heads [first, first + count), [clips][tokens][count]
  // [head_dim]: of the first clip of all in training (other groups get no heads), else of all clips here.
  struct Heads {
    std::int64_t first = 0, count = 0;
    tape::Tensor values;
  };
  virtual Heads by_heads(const float* x) = 0;
  // What was found out about these heads, `each` numbers a head; that of all heads on every rank.
  virtual std::vector<double> share(const std::vector<double>& own, std::int64_t each) = 0;

  // In training: some tokens, ascending, of the first clip of all, on every rank; x [clips][own tokens][width].
  virtual Buffer<float> first_clip(const float* x, std::int64_t width, std::span<const std::int32_t> tokens) = 0;

  // In training: the lists of all clips, from those of the clips here.
  virtual lists::KeyLists all_clips(const lists::KeyLists& own) = 0;
};

}  // namespace reel::predict
