// Which keys self-attention looks at, decided while the model trains or samples.
//
// Each head of each layer is dense or sparse. A dense head looks at all keys. On profile steps the controller looks at
// the true scores of a few query groups (profile.h), updates its picture of the head (moving averages) and decides:
// sparse where the predictor's list of the keys that carry the wanted mass is small enough to pay (below break-even)
// and nearly as good as the best list; back to dense where either fails. A sparse head's keys are chosen anew in every
// training pass: predicted queries and keys (predictor.h) are scored for a sample of each group's queries, and the
// heaviest keys are kept (attention/select.h), with the group's own tile. Sampling keeps the lists of the denoising
// step before as long as they cover the same mass, clip by clip.
//
// Nothing here is part of the model's graph: lists are constants of the step. A run of a recomputed part uses the same
// lists again (kept where they are small, else chosen again: same q and k, same bits) and profiles nothing. Predictions
// that are not finite make the layer dense for that pass; it is counted and told.
//
// State (predictor, averages, decisions, break-even) is saved with checkpoints: a resumed run chooses the same lists.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reel/lists/order.h"
#include "reel/predict/predictor.h"
#include "reel/predict/profile.h"
#include "reel/sparsity/break_even.h"
#include "reel/sparsity/config.h"

namespace reel::sparsity {

// What is known about a head; shares are of all keys. f32, as checkpoints keep it.
struct Head {
  float query_sparsity = 0, overlap = 0;
  float needed = 1;            // best list for the mass
  float needed_predicted = 1;  // the predictor's list for the mass, with `samples` scored queries and the own tile
  float needed_tiles = 1;      // the same in whole tiles of 64 keys
  float covered = 0;           // mass of the predictor's list
  float quality = 0;           // that over the mass of the best list of its size that holds the own tile
  float recall = 0;
  float rank = 0, samples = 0;
  float profiles = 0;  // how often it was looked at
  float sparse = 0;    // 1: sparse
};

class Controller {
 public:
  struct Options {
    BreakEven break_even;
    double lists_bytes = 0;  // that the lists of all layers may take; 0: no limit
    std::uint64_t seed = 0;
  };
  Controller(const SparsityConfig& config, const predict::ModelHeads& shape, const Options& options);

  // Before each pass. Only the first training pass of a step may profile (`pass` counts those that are accumulated).
  // Sampling passes with the same stream (0, 1, ...: with text, without) follow each other in denoising steps and may
  // keep lists; a pass without a stream begins anew.
  void begin(std::int64_t step, bool training, int stream = -1, std::int64_t pass = 0);
  // The order of tokens for this grid, made once; tiles do not reach over `cuts` (frames).
  std::shared_ptr<const lists::TokenOrder> order(const std::array<std::int64_t, 3>& grid,
                                                 const std::vector<std::int64_t>& cuts);

  // Self-attention of a layer, tokens in the order above: q, k, v [batch, tokens, heads, head_dim].
  tape::Tensor attend(tape::Tape& tape, int layer, const tape::Tensor& q, const tape::Tensor& k, const tape::Tensor& v,
                      const predict::Origin& origin = {});
  // The lists of that attention; null: all keys. On many ranks q, k and origin are of the tokens and clips here, the
  // lists of all tokens of the clips here; decisions and lists are those of one rank.
  std::shared_ptr<const lists::KeyLists> lists(tape::Tape& tape, int layer, const tape::Tensor& q,
                                               const tape::Tensor& k, const predict::Origin& origin,
                                               predict::Ranks* ranks = nullptr);

  const Head& head(int layer, std::int64_t h) const {
    return heads_[static_cast<std::size_t>(layer * shape_.heads + h)];
  }
  const predict::ModelHeads& shape() const { return shape_; }
  const SparsityConfig& config() const { return config_; }
  const BreakEven& break_even() const { return options_.break_even; }
  bool profiles_at(std::int64_t step) const;
  double sparse_share() const;  // of all heads
  // Of query-key pairs in the last pass, dense heads included; of the clips here, until the counts of others are added.
  double kept_share() const;
  std::span<double, 2> pairs() { return pairs_; }  // kept, all
  // Since the beginning of the process: layers that went dense for a pass, and layers that kept all lists they had.
  std::int64_t fallbacks() const { return fallbacks_; }
  std::int64_t reused() const { return reused_; }

  // Called with the lists of every layer, those of dense layers too: of all clips, so that on many ranks all of them
  // have one or none has.
  std::function<void(int layer, const lists::KeyLists&)> on_lists;
  // Called where a layer is dense for a pass, `step` as it was begun with, since predicted scores are not finite.
  std::function<void(std::int64_t step, int layer)> on_fallback;

  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  using Lists = std::shared_ptr<const lists::KeyLists>;
  struct Held {  // by a stream of denoising steps
    Lists lists;
    std::vector<double> covered;  // by those of each clip, when they were chosen
  };

  // controller.cpp
  Lists lists_for(const predict::Seen& seen, Threads& threads);
  Lists choose(const predict::Seen& seen, Threads& threads);
  Lists dynamic_lists(const predict::Seen& seen, Threads& threads);
  Lists held_lists(const predict::Seen& seen, Threads& threads);
  std::vector<double> covered(const predict::Seen& seen, const lists::KeyLists& lists, Threads& threads) const;
  double share_for(int layer, std::int64_t h) const;  // of keys that a list is to have, with those that all hold
  bool always_dense(int layer) const;
  const std::vector<std::int32_t>& samples_of(std::int64_t samples);

  // decide.cpp
  void look(predict::Seen seen, Threads& threads);  // profile and learn
  void profile(const predict::Seen& seen, Threads& threads);
  void decide(int layer, std::int64_t h, const predict::HeadProfile& profile);
  bool lists_fit(int layer, std::int64_t h) const;

  // static_lists.cpp
  void average_weights(const predict::Seen& seen, Threads& threads);
  bool has_averages(int layer) const;  // of clips of the present size
  lists::KeyLists static_lists(int layer, std::int64_t batch) const;

  SparsityConfig config_;
  predict::ModelHeads shape_;
  Options options_;
  std::vector<Head> heads_;
  std::unique_ptr<predict::Predictor> predictor_;
  std::vector<Buffer<float>> averages_;  // mode static, of a layer: [heads][groups][tokens]
  std::shared_ptr<const lists::TokenOrder> order_;
  std::vector<std::int64_t> cuts_;
  std::vector<std::int32_t> always_;  // tokens that every list holds beside its own tile
  double held_share_ = 0;             // these and the own tile, of all keys: mean over groups
  double held_tiles_share_ = 0;       // the same in whole tiles of 64 keys
  std::map<std::int64_t, std::vector<std::int32_t>> sample_tokens_;
  Lists fixed_;  // window and own: the same for every layer
  // Of a layer, for the run again of a recomputed part; null: dense, nothing: to be chosen again.
  std::vector<std::optional<Lists>> kept_;
  std::map<std::pair<int, int>, Held> held_;  // by stream and layer
  std::int64_t step_ = 0, pass_ = 0, fallbacks_ = 0, reused_ = 0, batch_ = 1;
  int stream_ = -1;
  bool training_ = false, again_ = false;  // again_: a recomputed part runs again
  std::array<double, 2> pairs_ = {};       // kept, all
};

}  // namespace reel::sparsity
