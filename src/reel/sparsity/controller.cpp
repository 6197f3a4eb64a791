#include "reel/sparsity/controller.h"

#include <algorithm>

#include "reel/base/sized.h"
#include "reel/predict/hidden_predictor.h"
#include "reel/predict/qk_predictor.h"

namespace reel::sparsity {

namespace {

std::unique_ptr<predict::Predictor> make_predictor(const SparsityConfig& config, const predict::ModelHeads& shape,
                                                   std::uint64_t seed) {
  if (config.predictor == "hidden") return std::make_unique<predict::HiddenPredictor>(shape, config.rank, seed);
  return std::make_unique<predict::QkPredictor>(shape, config.rank);
}

}  // namespace

Controller::Controller(const SparsityConfig& config, const predict::ModelHeads& shape, const Options& options)
    : config_(config),
      shape_(shape),
      options_(options),
      state_{.heads = std::vector<Head>(sized(shape.layers * shape.heads)),
             .predictor = make_predictor(config, shape, options.seed),
             .averages = std::vector<Buffer<float>>(sized(shape.layers)),
             .break_even = break_even_of(config, options.break_even)} {}

bool Controller::profiles_at(std::int64_t step) const {
  const std::int64_t every = step < 100 ? std::max<std::int64_t>(1, config_.profile_every / 5) : config_.profile_every;
  return step % every == 0;
}

double Controller::sparse_share() const {
  const auto sparse =
      std::count_if(state_.heads.begin(), state_.heads.end(), [](const Head& h) { return h.sparse != 0; });
  return static_cast<double>(sparse) / static_cast<double>(state_.heads.size());
}

std::shared_ptr<Tiles> Controller::tiles(const std::array<std::int64_t, 3>& grid,
                                         const std::vector<std::int64_t>& cuts) {
  if (tiles_ != nullptr && tiles_->order.grid == grid && tiles_->cuts == cuts) return tiles_;
  if (tiles_ != nullptr) {  // averages of a checkpoint are of this grid
    for (Buffer<float>& averages : state_.averages) averages = Buffer<float>();
  }
  tiles_ = std::make_shared<Tiles>(config_, grid, cuts);
  fixed_ = nullptr;
  return tiles_;
}

}  // namespace reel::sparsity
