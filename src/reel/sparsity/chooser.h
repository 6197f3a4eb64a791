// The keys that one pass looks at: the work of a controller in that pass.
//
// A sparse head's keys are chosen anew in every training pass: predicted queries and keys (predict/predictor.h) are
// scored for a sample of each group's queries, and the heaviest keys are kept (attention/select.h), with the group's
// own tile. Sampling keeps the lists of the denoising step before as long as they cover the same mass, clip by clip.
// The first training pass of a profile step looks at the true scores and decides which heads are sparse (decide.cpp).
//
// Nothing here is part of the model's graph: lists are constants of the step. A run of a recomputed part uses the same
// lists again (kept where they are small, else chosen again: same q and k, same bits) and profiles nothing. Predictions
// that are not finite make the layer dense for that pass; the controller counts it and tells on_fallback.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reel/predict/profile.h"
#include "reel/sparsity/controller.h"
#include "reel/sparsity/spread.h"

namespace reel::sparsity {

// The lists that denoising steps hand to each other, by stream and layer. Made for clips that are sampled together, and
// dropped with them.
struct HeldLists {
  struct Layer {
    std::shared_ptr<const lists::KeyLists> lists;
    std::vector<double> covered;   // by the lists of each clip, when they were chosen
    std::shared_ptr<Tiles> tiles;  // of the clips
  };
  std::map<std::pair<int, int>, Layer> layers;
};

// Pairs of a query and a key: all of a pass, and those that were not left out. A dense head keeps all of its own.
struct Pairs {
  double kept = 0, all = 0;
  double kept_share() const { return all > 0 ? kept / all : 1; }
};

class Chooser {
 public:
  // Both outlive it. `held` is for sampling; null: nothing is kept from pass to pass.
  Chooser(Controller& controller, const Pass& pass, HeldLists* held = nullptr);
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  const Pass pass;

  // The model calls this first: which tokens the pass has. The order that they are to have in self-attention; tiles do
  // not reach over `cuts` (frames).
  const lists::TokenOrder& order(const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cuts);

  const lists::TokenOrder& order() const { return tiles_->order; }  // once the model has called that

  // The lists of a layer's self-attention, tokens in the order above: q and k [clips here, tokens here, heads,
  // head_dim]. They are of the heads and query groups that this rank computes; null on every rank: all keys.
  // Decisions and lists are those of one rank.
  std::shared_ptr<const lists::KeyLists> lists(tape::Tape& tape, int layer, const tape::Tensor& q,
                                               const tape::Tensor& k, const predict::Origin& origin,
                                               const Spread& spread);

  const Pairs& pairs() const { return pairs_; }  // of the layers so far, and of what is computed here

 private:
  using Lists = std::shared_ptr<const lists::KeyLists>;
  // A layer of the pass.
  struct At {
    predict::Seen seen;
    const Spread& spread;
    Threads& threads;
  };

  // chooser.cpp
  Lists choose(const At& at);
  Lists dynamic_lists(const At& at);
  Lists held_lists(const At& at);
  Lists part_of(const At& at, const lists::KeyLists& whole) const;
  std::vector<double> covered(const At& at, const lists::KeyLists& own) const;
  work::Selection choice_work(const At& at) const;
  double share_for(int layer, std::int64_t h) const;  // of keys that a list is to have, with those that all hold

  // decide.cpp
  void look(const At& at);  // profile and learn
  void profile(const At& at, const Spread::Heads& q, const Spread::Heads& k);
  void learn(const At& at, const predict::ClipHeads& clip, bool profiled);
  work::Selection profile_work(const At& at) const;
  void add_to_averages(Head& head, const predict::HeadProfile& seen, std::int64_t rank) const;
  void decide(int layer, std::int64_t h);
  bool lists_fit(int layer, std::int64_t h) const;

  // static_lists.cpp
  void average_weights(const At& at, const Spread::Heads& q, const Spread::Heads& k);
  bool has_averages(int layer) const;  // of clips of the present size
  lists::KeyLists static_lists(int layer, std::int64_t batch) const;

  Controller& controller_;
  const SparsityConfig& config_;
  const predict::ModelHeads& shape_;
  State& state_;
  HeldLists* held_;
  std::shared_ptr<Tiles> tiles_;
  // Lists of each layer, kept for when recompute runs it again. nullptr: dense. nullopt: choose again.
  std::vector<std::optional<Lists>> kept_;
  std::int64_t batch_ = 1;  // the most clips that a rank has
  bool again_ = false;      // a recomputed part runs again
  Pairs pairs_;
};

}  // namespace reel::sparsity
