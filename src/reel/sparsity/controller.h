// What decides, while a model trains or samples, which heads of its self-attention are sparse.
//
// Each head of each layer is dense or sparse. A dense head looks at all keys. On profile steps the true scores of a few
// query groups are looked at (predict/profile.h) and the picture of the head is updated (moving averages). A head turns
// sparse where the predictor's list of the keys that carry the wanted mass is small enough to pay (below break-even)
// and nearly as good as the best list; it turns dense again where either fails.
//
// A controller belongs to a run. It has three parts: the configuration; the state of the run, which checkpoints keep
// (state.h); and the work of one pass, which is an object of its own (chooser.h) and ends with the pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reel/base/sized.h"
#include "reel/lists/ordered_lists.h"
#include "reel/sparsity/state.h"
#include "reel/sparsity/tiles.h"

namespace reel::sparsity {

class Controller {
 public:
  struct Options {
    BreakEven break_even;
    double lists_bytes = 0;  // that the lists of all layers may take; 0: no limit
    std::uint64_t seed = 0;
  };
  Controller(const SparsityConfig& config, const predict::ModelHeads& shape, const Options& options);

  const Head& head(int layer, std::int64_t h) const { return state_.heads[sized(layer * shape_.heads + h)]; }
  const predict::ModelHeads& shape() const { return shape_; }
  const SparsityConfig& config() const { return config_; }
  const BreakEven& break_even() const { return state_.break_even; }
  bool profiles_at(std::int64_t step) const;
  double sparse_share() const;  // of all heads
  // Since the beginning of the process: layers that went dense for a pass, and layers that kept all lists they had.
  std::int64_t fallbacks() const { return fallbacks_; }
  std::int64_t reused() const { return reused_; }

  // Called with the lists of every layer, those of dense layers too: of all clips, so that on many ranks all of them
  // have one or none has.
  std::function<void(int layer, const lists::OrderedLists&)> on_lists;
  // Called where a layer is dense for a pass, `step` being that of the pass, since predicted scores are not finite.
  std::function<void(std::int64_t step, int layer)> on_fallback;

  void save(const std::string& path) const { state_.save(path, shape_); }
  void load(const std::string& path) { state_.load(path, shape_, config_); }

 private:
  friend class Chooser;

  // Made once for a grid. Averages of another grid are dropped, since they mean nothing for this one.
  std::shared_ptr<Tiles> tiles(const std::array<std::int64_t, 3>& grid, const std::vector<std::int64_t>& cuts);

  SparsityConfig config_;
  predict::ModelHeads shape_;
  Options options_;
  State state_;
  std::shared_ptr<Tiles> tiles_;                  // of the last pass
  std::shared_ptr<const lists::KeyLists> fixed_;  // modes window and own: the same for every layer and pass
  std::int64_t fallbacks_ = 0, reused_ = 0;
};

}  // namespace reel::sparsity
