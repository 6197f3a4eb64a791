// What a forward pass runs in: the tape, the ranks, and the one door through which self-attention reaches whatever
// decides how it is computed: key lists, sparsity, the plan of the ranks.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "reel/layout/cut.h"
#include "reel/lists/ordered_lists.h"
#include "reel/lists/view.h"
#include "reel/parallel/team.h"
#include "reel/sparsity/chooser.h"
#include "reel/tape/operations.h"

namespace reel::model {

using tape::Parameter;
using tape::Tape;
using tape::Tensor;

// Which part of the whole the q, k, v of a rank are: all of it, some tokens of every sequence, or whole sequences.
struct AllHere {};
struct TokensHere {
  layout::Cut cut;  // of the tokens over the sequence group
};
struct SequencesHere {
  // Which ones every rank has, one rank after another, of the `batch` that one rank would have; and how they are cut
  // over the sequence group.
  std::vector<std::int32_t> items;
  std::int64_t batch = 0;
  layout::Cut cut;
};
using Here = std::variant<AllHere, TokensHere, SequencesHere>;

// Key lists that a pass is given, whole on every rank. None: not given.
struct GivenLists {
  GivenLists() = default;
  template <std::convertible_to<std::shared_ptr<const lists::OrderedLists>> Shared>
  GivenLists(Shared lists) : all(std::move(lists)), here(all) {}

  std::shared_ptr<const lists::OrderedLists> all;
  lists::ListsView here;  // those of the clips here
};

class Context {
 public:
  // A pass on this tape. Where there is a controller, it chooses the keys of the pass; `held` is what it hands from one
  // denoising step to the next. All of them outlive the context.
  explicit Context(Tape& on, const sparsity::Pass& of = {}, sparsity::Controller* controller = nullptr,
                   sparsity::HeldLists* held = nullptr)
      : tape(on), pass(of) {
    if (controller != nullptr) sparsity.emplace(*controller, of, held);
  }
  virtual ~Context() = default;

  // The order that the tokens of a clip are to have in self-attention, token i being token order[i] in raster order;
  // empty: raster order. A model that can follow it asks before its first self-attention; no other model takes lists
  // that have an order. Tokens stay on their side of the frames `cuts`. Throws Error where the lists do not fit.
  std::vector<std::int32_t> order(const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cuts);

  // Where the tokens of a clip, in that order, rest on the ranks of a sequence group: in whole query groups where keys
  // are listed or chosen, so that a rank chooses keys for groups that it has.
  layout::Cut resting_tokens(std::int64_t tokens, int ranks) const;

  // Self-attention of layer `layer` (counted over all self-attentions of the model, in the order they run):
  // q, k, v [batch, tokens, heads, head_dim] -> the same shape. Here: over `lists`, over the keys that `sparsity`
  // chooses, or over all keys. `origin` tells what q and k are made of, for predictors that start there.
  virtual Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                        const predict::Origin& origin = {}, const Here& here = {});

  Tape& tape;
  const sparsity::Pass pass;
  bool recompute = false;  // blocks are run again in backward instead of keeping what they computed
  // At most one of the two: lists for every self-attention, or a chooser (wan only).
  GivenLists lists;
  std::optional<sparsity::Chooser> sparsity;
  // Null: one rank. Otherwise input and output of the model are whole on every rank of a sequence group, what is
  // between is cut, and the gradients of the weights are partial: their sum over the ranks is the gradient.
  parallel::Team* team = nullptr;

 private:
  bool follows_order_ = false;  // the model has asked for the order

  lists::ListsView given_lists(int layer, const Tensor& q, const Tensor& k, const Here& here) const;
  lists::ListsView chosen_lists(int layer, const Tensor& q, const Tensor& k, const predict::Origin& origin,
                                const TokensHere* here);
};

}  // namespace reel::model
