#include "sparsity/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "sparsity/choose.h"
#include "sparsity/hidden_predictor.h"
#include "sparsity/lists.h"
#include "sparsity/qk_predictor.h"

namespace reel::sparsity {

using attention::KeyLists;
using tape::Tensor;

namespace {

// Lists are used again in sampling as long as they cover this much less than when they were chosen.
constexpr double kMayLose = 0.01;
constexpr std::int64_t kCheckedGroups = 2;

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

std::unique_ptr<Predictor> make_predictor(const SparsityConfig& config, const Shape& shape, std::uint64_t seed) {
  if (config.predictor == "hidden") return std::make_unique<HiddenPredictor>(shape, config.rank, seed);
  return std::make_unique<QkPredictor>(shape, config.rank);
}

double bytes(const KeyLists& lists) {
  return 4.0 * static_cast<double>(lists.keys.size()) + 8.0 * static_cast<double>(lists.offsets.size());
}

}  // namespace

Controller::Controller(const SparsityConfig& config, const Shape& shape, const Options& options)
    : config_(config),
      shape_(shape),
      options_(options),
      heads_(sized(shape.layers * shape.heads)),
      predictor_(make_predictor(config, shape, options.seed)),
      averages_(sized(shape.layers)),
      kept_(sized(shape.layers)) {
  if (config_.break_even > 0) options_.break_even.share = static_cast<float>(config_.break_even);
}

void Controller::begin(std::int64_t step, bool training, int stream) {
  step_ = step;
  training_ = training;
  stream_ = stream;
  kept_pairs_ = all_pairs_ = 0;
  std::fill(kept_.begin(), kept_.end(), std::nullopt);
  if (training || stream < 0) held_.clear();
}

std::shared_ptr<const TokenOrder> Controller::order(const std::array<std::int64_t, 3>& grid,
                                                    const std::vector<std::int64_t>& cuts) {
  if (order_ == nullptr || order_->grid != grid || cuts_ != cuts) {
    if (order_ != nullptr) {  // averages of another grid mean nothing; those of a checkpoint are of this one
      for (Buffer<float>& averages : averages_) averages = Buffer<float>();
    }
    order_ = std::make_shared<TokenOrder>(tile_order(grid, config_.tile(), cuts));
    cuts_ = cuts;
    always_ = tokens_of_frames(*order_, config_.keep);
    sample_tokens_.clear();
    held_.clear();
    fixed_ = nullptr;
  }
  return order_;
}

const std::vector<std::int32_t>& Controller::samples_of(std::int64_t samples) {
  auto& tokens = sample_tokens_[samples];
  if (tokens.empty()) tokens = sample_queries(*order_, samples);
  return tokens;
}

bool Controller::always_dense(int layer) const {
  return std::find(config_.dense_layers.begin(), config_.dense_layers.end(), layer) != config_.dense_layers.end();
}

double Controller::share_for(int layer, std::int64_t h) const {
  if (!config_.layer_keys.empty()) return config_.layer_keys[sized(layer)];
  return config_.keys > 0 ? config_.keys : static_cast<double>(head(layer, h).needed_predicted);
}

Tensor Controller::attend(tape::Tape& tape, int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Origin& origin) {
  if (tape.ghost()) return tape::attention(tape, q, k, v);
  REEL_CHECK(order_ != nullptr && order_->tokens() == q.dim(1) && layer < shape_.layers);
  const Seen seen{layer, q.dim(0), q.dim(1), q.data(), k.data(), &origin};
  batch_ = seen.batch;
  Lists lists;
  if (!always_dense(layer)) {
    if (training_ && !tape.rerunning()) {
      tape.run({.name = "profile and predictor"}, [&] { look(seen, tape.threads()); });
    }
    tape.run({.name = "choose keys"}, [&] {
      const std::optional<Lists>& kept = kept_[sized(layer)];
      lists = tape.rerunning() && kept.has_value() ? *kept : lists_for(seen, tape.threads());
    });
  }
  if (!tape.rerunning()) {
    const double pairs = static_cast<double>(q.dim(0) * q.dim(2) * q.dim(1)) * static_cast<double>(k.dim(1));
    all_pairs_ += pairs;
    kept_pairs_ += lists == nullptr ? pairs : static_cast<double>(lists->pairs());
    if (on_lists) {
      on_lists(layer, lists != nullptr ? *lists : attention::dense_lists(q.dim(0), q.dim(2), q.dim(1), k.dim(1)));
    }
    // For a recomputed part, which keeps its input: lists no larger than that are kept too, others chosen again.
    if (training_ && (lists == nullptr || bytes(*lists) <= 4.0 * static_cast<double>(q.size()))) {
      kept_[sized(layer)] = lists;
    }
  }
  return tape::attention(tape, q, k, v, lists);
}

Controller::Lists Controller::lists_for(const Seen& seen, Threads& threads) {
  return stream_ >= 0 && !training_ && config_.mode == "dynamic" ? held_lists(seen, threads) : choose(seen, threads);
}

Controller::Lists Controller::choose(const Seen& seen, Threads& threads) {
  if (config_.mode == "dynamic") return dynamic_lists(seen, threads);
  if (step_ < config_.start) return nullptr;
  const double share = config_.keys > 0 ? config_.keys : 0.1;
  if (config_.mode == "random") {
    const std::uint64_t seed =
        options_.seed * 1000003 + static_cast<std::uint64_t>(step_) * 1009 + static_cast<std::uint64_t>(seen.layer);
    return std::make_shared<KeyLists>(
        with_own_tile(random_own_lists(*order_, seen.batch, shape_.heads, share, seed), always_));
  }
  if (config_.mode == "static") {
    if (!has_averages(seen.layer)) return nullptr;
    return std::make_shared<KeyLists>(static_lists(seen.layer, seen.batch));
  }
  if (fixed_ == nullptr || fixed_->batch != seen.batch) {
    const KeyLists lists = config_.mode == "own" ? own_lists(*order_, seen.batch, shape_.heads)
                                                 : window_lists(*order_, seen.batch, shape_.heads, share);
    fixed_ = std::make_shared<KeyLists>(with_own_tile(lists, always_));
  }
  return fixed_;
}

Controller::Lists Controller::dynamic_lists(const Seen& seen, Threads& threads) {
  const int layer = seen.layer;
  // Heads that score the same number of queries are chosen for together. Whole tiles where they are cheaper for the
  // layer: they need more keys for the same mass, each of them for less.
  std::map<std::int64_t, std::vector<ChosenHead>> by_samples;
  double tokens_cost = 0, tiles_cost = 0;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    if (head(layer, h).sparse == 0) continue;
    tokens_cost += static_cast<double>(head(layer, h).needed_predicted);
    tiles_cost += static_cast<double>(head(layer, h).needed_tiles * options_.break_even.tile_cost);
  }
  if (tokens_cost == 0) return nullptr;
  const bool by_mass = config_.keys == 0 && config_.layer_keys.empty();
  // The own tile is part of a fixed budget, and comes on top of the keys that a mass needs.
  const std::int64_t own = by_mass ? 0 : config_.group[0] * config_.group[1] * config_.group[2];
  const int granularity = by_mass && tiles_cost < tokens_cost ? attention::kTileKeys : 1;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    if (head(layer, h).sparse == 0) continue;
    const double share = granularity == 1 ? share_for(layer, h) : static_cast<double>(head(layer, h).needed_tiles);
    const auto keep =
        static_cast<std::int64_t>(std::ceil(share * static_cast<double>(seen.tokens) / granularity)) - own;
    by_samples[static_cast<std::int64_t>(head(layer, h).samples)].push_back({h, std::max<std::int64_t>(keep, 1)});
  }
  std::deque<KeyLists> chosen;
  std::map<std::int64_t, std::pair<const KeyLists*, std::int64_t>> where;  // head -> its place
  for (const auto& [samples, members] : by_samples) {
    chosen.push_back(choose_keys(seen,
                                 {.order = order_.get(),
                                  .predictor = predictor_.get(),
                                  .head_dim = shape_.head_dim,
                                  .samples = samples,
                                  .granularity = granularity,
                                  .sampled = samples_of(samples),
                                  .always = always_,
                                  .members = members},
                                 threads));
    if (chosen.back().heads == 0) {
      if (fallbacks_++ == 0) {
        fmt::print(stderr, "reel: step {}, layer {}: predicted scores are not finite; dense for this step\n", step_,
                   layer);
      }
      return nullptr;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      where[members[i].head] = {&chosen.back(), static_cast<std::int64_t>(i)};
    }
  }
  if (chosen.size() == 1 && chosen.front().heads == shape_.heads) {
    return std::make_shared<KeyLists>(std::move(chosen.front()));
  }
  attention::KeyListsBuilder builder(seen.batch, shape_.heads, seen.tokens, order_->group_starts, granularity);
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto at = where.find(h);
      if (at == where.end() || at->second.first->dense(b, at->second.second)) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < order_->groups(); ++g) builder.add(at->second.first->list(b, at->second.second, g));
    }
  }
  return std::make_shared<KeyLists>(builder.finish());
}

Controller::Lists Controller::held_lists(const Seen& seen, Threads& threads) {
  Held& held = held_[{stream_, seen.layer}];
  const auto covered = [&](const KeyLists& lists) {
    CoverageInput in{.batch = seen.batch, .heads = shape_.heads, .head_dim = shape_.head_dim, .q = seen.q, .k = seen.k};
    for (std::int64_t i = 0; i < std::min(kCheckedGroups, order_->groups()); ++i) {
      in.groups.push_back((i * order_->groups() / kCheckedGroups + seen.layer) % order_->groups());
    }
    return coverage(in, lists, threads);
  };
  if (held.lists != nullptr && held.lists->batch == seen.batch && covered(*held.lists) >= held.covered - kMayLose) {
    ++reused_;
    return held.lists;
  }
  held = {choose(seen, threads), 0};
  if (held.lists != nullptr) held.covered = covered(*held.lists);
  return held.lists;
}

double Controller::sparse_share() const {
  const auto sparse = std::count_if(heads_.begin(), heads_.end(), [](const Head& h) { return h.sparse != 0; });
  return static_cast<double>(sparse) / static_cast<double>(heads_.size());
}

double Controller::kept_share() const { return all_pairs_ > 0 ? kept_pairs_ / all_pairs_ : 1; }

}  // namespace reel::sparsity
