// How a pass is spread over ranks, and what its chooser asks the other ranks for.
//
// The ranks of a sequence group have the same clips, each of them some of the tokens, consecutive ones, in whole query
// groups. In training other groups have other clips, and all ranks decide together: what is looked at is the first clip
// of all, which the first group has. In other passes every group is on its own. All ranks that decide together call the
// same functions in the same order. One rank has everything, and nothing is sent.
//
// Every number is computed where one rank would compute it from the same numbers in the same order: low-rank queries
// and keys row by row, what is known about a head from all tokens of that head. Keys are chosen by the rank that
// computes with them. So decisions and lists are those of one rank, to the bit, wherever q and k are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/lists/key_lists.h"
#include "reel/lists/order.h"
#include "reel/parallel/gathers.h"
#include "reel/parallel/team.h"
#include "reel/predict/choose.h"
#include "reel/sparsity/pass.h"

namespace reel::sparsity {

class Spread {
 public:
  // q is [clips here, tokens here, heads, head_dim]. Null `team`: one rank. Otherwise `tokens` is cut over
  // team.sequence(). Tape and team outlive it.
  Spread(tape::Tape& tape, parallel::Team* team, const tape::Shape& q, const layout::Cut& tokens, const Pass& pass);

  std::int64_t tokens() const { return tokens_.extent(); }  // of a clip, on all ranks
  std::int64_t first_token() const { return tokens_.begin(rank()); }
  int parts() const { return tokens_.parts(); }               // that the tokens are cut into
  std::int64_t most_clips() const { return clips_.size(0); }  // that a rank has
  std::int64_t all_clips() const { return clips_.extent(); }
  std::int64_t first_clip() const { return clips_.begin(group_); }  // that is here
  bool has_first_clip() const { return group_ == 0; }               // or some tokens of it

  // The heads and query groups that a rank of the sequence group computes, and this one.
  parallel::Had share(int rank, const lists::TokenOrder& order) const;
  parallel::Had share(const lists::TokenOrder& order) const { return share(rank(), order); }

  // values[i] = the largest values[i] of any rank that decides with this one.
  void largest(std::span<double> values) const;

  // All tokens of some heads of q or k: of the first clip in training (only the first group gets any), otherwise of all
  // clips here, [clips][tokens][count][head_dim].
  struct Heads {
    std::int64_t first = 0, count = 0;
    const float* values = nullptr;
    tape::Tensor held = {};
  };
  Heads by_heads(const float* x) const;
  // What was found out about these heads, `each` numbers a head: the numbers of all heads.
  template <class T>
  std::vector<T> of_all_heads(std::vector<T> own, std::int64_t each) const {
    if (team_ == nullptr) return own;
    return parallel::gather_blocks<T>(together(), own, first_ranks(heads_, each), where());
  }

  // In training: rows of the first clip of x [clips][tokens here][width]. One rank has all rows, in order; several get
  // those of `wanted` (tokens, ascending).
  struct Rows {
    const float* data = nullptr;
    std::vector<float> held = {};
  };
  Rows rows_of_first_clip(const float* x, std::int64_t width, std::span<const std::int32_t> wanted) const;
  bool has_all_rows() const { return team_ == nullptr; }

  // Low-rank queries and keys are predicted where the tokens are. Of the tokens `rows`, [first, last) of the list are
  // wanted by a rank, of the heads [first, last) of the list of heads; keys are wanted of all tokens.
  struct Wants {
    std::int64_t first_head = 0, last_head = 0, first_row = 0, last_row = 0;
  };
  std::vector<Wants> all_rows_by_heads(std::int64_t rows) const;                  // for what by_heads gives each rank
  std::vector<std::int32_t> rows_here(std::span<const std::int32_t> rows) const;  // counted from the first token here
  predict::Predicted bring(predict::Predicted here, std::int64_t heads, std::span<const std::int32_t> rows,
                           std::span<const Wants> wants) const;

  // Lists of all heads and of some query groups (ascending), from the lists of every rank's share.
  lists::KeyLists of_all_shares(const lists::KeyLists& own, const lists::TokenOrder& order,
                                std::span<const std::int32_t> groups) const;
  // Lists of all clips, heads and groups.
  lists::KeyLists whole(const lists::KeyLists& own, const lists::TokenOrder& order) const;

 private:
  int rank() const { return team_ != nullptr ? team_->sequence().rank() : 0; }
  comm::Comm& together() const { return training_ ? team_->world() : team_->sequence(); }
  comm::Where where() const { return parallel::where(tape_); }
  std::vector<std::int64_t> first_ranks(const layout::Cut& cut, std::int64_t each) const;

  tape::Tape& tape_;
  parallel::Team* team_;
  tape::Shape shape_;
  layout::Cut tokens_, clips_;
  layout::Cut heads_;  // evenly over the sequence group
  int group_ = 0;      // of those that decide together
  bool training_;
};

}  // namespace reel::sparsity
