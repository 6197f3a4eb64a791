#include "reel/sparsity/chooser.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/lists/controls.h"
#include "reel/predict/choose.h"

namespace reel::sparsity {

using lists::KeyLists;
using tape::Tensor;

namespace {

// Lists are used again in sampling as long as they cover this much less than when they were chosen.
constexpr double kMayLose = 0.01;
constexpr std::int64_t kCheckedGroups = 2;
constexpr double kRounding = 1e-3;  // of a number of keys, as shares are kept in f32

double bytes(const KeyLists& lists) {
  return 4.0 * static_cast<double>(lists.keys.size()) + 8.0 * static_cast<double>(lists.offsets.size());
}

}  // namespace

Chooser::Chooser(Controller& controller, const Pass& of, HeldLists* held)
    : pass(of),
      controller_(controller),
      config_(controller.config_),
      shape_(controller.shape_),
      state_(controller.state_),
      held_(held),
      kept_(sized(shape_.layers)) {
  REEL_CHECK(held_ == nullptr || pass.kind == Pass::Kind::kSampling);
}

const lists::TokenOrder& Chooser::order(const std::array<std::int64_t, 3>& grid,
                                        const std::vector<std::int64_t>& cuts) {
  tiles_ = controller_.tiles(grid, cuts);
  return tiles_->order;
}

double Chooser::share_for(int layer, std::int64_t h) const {
  const double asked = config_.asked_keys(layer);
  return asked > 0 ? asked : static_cast<double>(controller_.head(layer, h).needed_predicted);
}

Tensor Chooser::attend(tape::Tape& tape, int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                       const predict::Origin& origin) {
  return tape::attention(tape, q, k, v, tape.ghost() ? nullptr : lists(tape, layer, q, k, origin));
}

std::shared_ptr<const KeyLists> Chooser::lists(tape::Tape& tape, int layer, const Tensor& q, const Tensor& k,
                                               const predict::Origin& origin, predict::Ranks* ranks) {
  const predict::Seen seen{layer, q.dim(0), q.dim(1), q.data(), k.data(), &origin, ranks};
  const std::int64_t tokens = seen.all_tokens(), heads = q.dim(2);
  REEL_CHECK(tiles_ != nullptr && tiles_->order.tokens() == tokens && layer < shape_.layers);
  again_ = tape.rerunning();
  batch_ = ranks != nullptr ? ranks->clip_starts[1] : seen.batch;  // the most that a rank has
  Lists chosen;
  if (!config_.always_dense(layer)) {
    if (pass.training() && !again_) {
      tape.run(profile_work(seen), [&] { look(seen, tape.threads()); });
    }
    tape.run(choice_work(seen), [&] {
      const std::optional<Lists>& kept = kept_[sized(layer)];
      chosen = again_ && kept.has_value()                      ? *kept
               : held_ != nullptr && config_.mode == "dynamic" ? held_lists(seen, tape.threads())
                                                               : choose(seen, tape.threads());
    });
  }
  if (again_) return chosen;
  const double all = static_cast<double>(seen.batch * heads * tokens) * static_cast<double>(tokens);
  pairs_.kept += chosen == nullptr ? all : static_cast<double>(chosen->pairs());
  pairs_.all += all;
  if (controller_.on_lists) {
    KeyLists own = chosen == nullptr ? lists::dense_lists(seen.batch, heads, tokens, tokens) : *chosen;
    if (ranks != nullptr) own = ranks->all_clips(own);
    controller_.on_lists(layer, lists::OrderedLists(std::move(own), tiles_->order.raster, shape_.head_dim));
  }
  // For a recomputed part, which keeps its input: lists no larger than that are kept too, others chosen again. The
  // ranks of a sequence group have the same lists and must do the same, however the tokens are cut.
  const auto parts = static_cast<double>(ranks != nullptr ? ranks->token_starts.size() - 1 : 1);
  const double input = 4.0 * static_cast<double>(seen.batch * tokens * heads * q.dim(3)) / parts;
  if (pass.training() && (chosen == nullptr || bytes(*chosen) <= input)) kept_[sized(layer)] = chosen;
  return chosen;
}

// The scores of the sparse heads; controls score nothing.
work::Selection Chooser::choice_work(const predict::Seen& seen) const {
  work::Selection work{.kind = work::Selection::Kind::kChoice, .keys = seen.all_tokens()};
  for (std::int64_t h = 0; config_.mode == "dynamic" && h < shape_.heads; ++h) {
    const Head& head = controller_.head(seen.layer, h);
    if (head.sparse == 0) continue;
    work.rows += seen.batch * tiles_->order.groups() * static_cast<std::int64_t>(head.samples);
    work.width = std::max(work.width, static_cast<std::int64_t>(head.rank));
  }
  return work;
}

Chooser::Lists Chooser::choose(const predict::Seen& seen, Threads& threads) {
  if (config_.mode == "dynamic") return dynamic_lists(seen, threads);
  if (pass.step < config_.start) return nullptr;
  const double share = config_.control_keys();
  if (config_.mode == "random") {
    const std::uint64_t seed = controller_.options_.seed * 1000003 + static_cast<std::uint64_t>(pass.step) * 1009 +
                               static_cast<std::uint64_t>(seen.layer);
    // Drawn one clip after another: those of other ranks, too.
    const std::int64_t before = seen.ranks != nullptr ? seen.ranks->clip_starts[sized(seen.ranks->group)] : 0;
    return std::make_shared<KeyLists>(
        lists::random_own_lists(tiles_->order, seen.batch, shape_.heads, share, seed, tiles_->always, before));
  }
  if (config_.mode == "static") {
    if (!has_averages(seen.layer)) return nullptr;
    return std::make_shared<KeyLists>(static_lists(seen.layer, seen.batch));
  }
  if (controller_.fixed_ == nullptr || controller_.fixed_->batch != seen.batch) {
    controller_.fixed_ = std::make_shared<KeyLists>(
        config_.mode == "own" ? lists::own_lists(tiles_->order, seen.batch, shape_.heads, tiles_->always)
                              : lists::window_lists(tiles_->order, seen.batch, shape_.heads, share, tiles_->always));
  }
  return controller_.fixed_;
}

Chooser::Lists Chooser::dynamic_lists(const predict::Seen& seen, Threads& threads) {
  const int layer = seen.layer;
  // Heads that score the same number of queries are chosen for together. Whole tiles where they are cheaper for the
  // layer: they need more keys for the same mass, each of them for less.
  std::map<std::int64_t, std::vector<predict::ChosenHead>> by_samples;
  double tokens_cost = 0, tiles_cost = 0;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    if (controller_.head(layer, h).sparse == 0) continue;
    tokens_cost += static_cast<double>(controller_.head(layer, h).needed_predicted);
    tiles_cost += static_cast<double>(controller_.head(layer, h).needed_tiles * state_.break_even.tile_cost);
  }
  if (tokens_cost == 0) return nullptr;
  const bool by_mass = config_.keys == 0 && config_.layer_keys.empty();
  const int granularity = by_mass && tiles_cost < tokens_cost ? lists::kTileKeys : 1;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    if (controller_.head(layer, h).sparse == 0) continue;
    // A fixed budget is that of every list; what a mass needs is so on average, and short tiles hold less.
    const double more = granularity == 1
                            ? share_for(layer, h) - tiles_->held_share
                            : static_cast<double>(controller_.head(layer, h).needed_tiles) - tiles_->held_tiles_share;
    const auto keep = by_mass ? static_cast<std::int64_t>(
                                    std::ceil(more * static_cast<double>(seen.all_tokens()) / granularity - kRounding))
                              : lists::budget_of(share_for(layer, h), seen.all_tokens());
    by_samples[static_cast<std::int64_t>(controller_.head(layer, h).samples)].push_back({h, keep});
  }
  std::deque<KeyLists> chosen;
  std::map<std::int64_t, std::pair<const KeyLists*, std::int64_t>> where;  // head -> its place
  for (const auto& [samples, members] : by_samples) {
    chosen.push_back(predict::choose_keys(seen,
                                          {.order = &tiles_->order,
                                           .predictor = state_.predictor.get(),
                                           .head_dim = shape_.head_dim,
                                           .samples = samples,
                                           .granularity = granularity,
                                           .sampled = tiles_->sampled(samples),
                                           .always = tiles_->always,
                                           .beside = by_mass,
                                           .members = members,
                                           .again = again_},
                                          threads));
    if (chosen.back().heads == 0) {
      ++controller_.fallbacks_;
      if (controller_.on_fallback) controller_.on_fallback(pass.step, layer);
      return nullptr;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      where[members[i].head] = {&chosen.back(), static_cast<std::int64_t>(i)};
    }
  }
  if (chosen.size() == 1 && chosen.front().heads == shape_.heads) {
    return std::make_shared<KeyLists>(std::move(chosen.front()));
  }
  lists::KeyListsBuilder builder(seen.batch, shape_.heads, seen.all_tokens(), tiles_->order.group_starts, granularity);
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto at = where.find(h);
      if (at == where.end()) {
        builder.add_dense_head();
      } else {
        builder.add_head(*at->second.first, b, at->second.second);
      }
    }
  }
  return std::make_shared<KeyLists>(builder.finish());
}

// The share of the true mass that the lists of each clip cover; 1 where every head is dense.
std::vector<double> Chooser::covered(const predict::Seen& seen, const KeyLists& lists, Threads& threads) const {
  predict::CoverageInput in{
      .batch = seen.batch, .heads = shape_.heads, .head_dim = shape_.head_dim, .q = seen.q, .k = seen.k};
  predict::Ranks::Heads q, k;
  if (seen.ranks != nullptr) {
    q = seen.ranks->by_heads(seen.q), k = seen.ranks->by_heads(seen.k);
    in.first_head = q.first, in.heads = q.count;
    in.q = q.values.data(), in.k = k.values.data();
  }
  for (std::int64_t i = 0; i < std::min(kCheckedGroups, tiles_->order.groups()); ++i) {
    in.groups.push_back((i * tiles_->order.groups() / kCheckedGroups + seen.layer) % tiles_->order.groups());
  }
  std::vector<double> masses = predict::coverage(in, lists, threads);
  if (seen.ranks != nullptr) masses = seen.ranks->share(masses, seen.batch);
  std::vector<double> clips(sized(seen.batch));
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    double mass = 0, sparse = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      if (lists.dense(b, h)) continue;
      mass += masses[sized(h * seen.batch + b)];
      ++sparse;
    }
    clips[sized(b)] = sparse > 0 ? mass / sparse : 1;
  }
  return clips;
}

// Clip by clip, so that it does not matter with which others a clip is sampled.
Chooser::Lists Chooser::held_lists(const predict::Seen& seen, Threads& threads) {
  HeldLists::Layer& held = held_->layers[{pass.stream, seen.layer}];
  std::vector<std::uint8_t> keep;
  if (held.lists != nullptr && held.lists->batch == seen.batch && held.tiles == tiles_) {
    const std::vector<double> now = covered(seen, *held.lists, threads);
    for (std::size_t b = 0; b < now.size(); ++b) keep.push_back(now[b] >= held.covered[b] - kMayLose ? 1 : 0);
    if (std::count(keep.begin(), keep.end(), 1) == seen.batch) {
      ++controller_.reused_;
      return held.lists;
    }
  }
  HeldLists::Layer fresh{choose(seen, threads), {}, tiles_};
  if (fresh.lists != nullptr) fresh.covered = covered(seen, *fresh.lists, threads);
  if (fresh.lists != nullptr && !keep.empty()) {
    fresh.lists = std::make_shared<KeyLists>(lists::mixed_items(*fresh.lists, *held.lists, keep));
    for (std::size_t b = 0; b < keep.size(); ++b) {
      if (keep[b] != 0) fresh.covered[b] = held.covered[b];
    }
  }
  held = std::move(fresh);
  return held.lists;
}

}  // namespace reel::sparsity
