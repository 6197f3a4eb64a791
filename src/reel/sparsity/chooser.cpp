#include "reel/sparsity/chooser.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/lists/controls.h"
#include "reel/lists/view.h"
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

std::shared_ptr<const KeyLists> Chooser::lists(tape::Tape& tape, int layer, const Tensor& q, const Tensor& k,
                                               const predict::Origin& origin, const Spread& spread) {
  const At at{{layer, q.dim(0), q.dim(1), q.data(), k.data(), &origin, spread.first_token()}, spread, tape.threads()};
  const std::int64_t tokens = spread.tokens(), heads = q.dim(2);
  REEL_CHECK(tiles_ != nullptr && tiles_->order.tokens() == tokens && layer < shape_.layers);
  again_ = tape.rerunning();
  batch_ = spread.most_clips();
  Lists chosen;
  if (!config_.always_dense(layer)) {
    if (pass.training() && !again_) tape.run(profile_work(at), [&] { look(at); });
    tape.run(choice_work(at), [&] {
      const std::optional<Lists>& kept = kept_[sized(layer)];
      chosen = again_ && kept.has_value()                      ? *kept
               : held_ != nullptr && config_.mode == "dynamic" ? held_lists(at)
                                                               : choose(at);
    });
  }
  if (again_) return chosen;
  const parallel::Had share = spread.share(tiles_->order);
  const std::int64_t queries =
      tiles_->order.group_starts[sized(share.last_group)] - tiles_->order.group_starts[sized(share.first_group)];
  const double all =
      static_cast<double>(at.seen.batch * (share.last_head - share.first_head) * queries) * static_cast<double>(tokens);
  pairs_.kept += chosen == nullptr ? all : static_cast<double>(chosen->pairs());
  pairs_.all += all;
  if (controller_.on_lists) {
    KeyLists everything = chosen == nullptr ? lists::dense_lists(spread.all_clips(), heads, tokens, tokens)
                                            : spread.whole(*chosen, tiles_->order);
    controller_.on_lists(layer, lists::OrderedLists(std::move(everything), tiles_->order.raster, shape_.head_dim));
  }
  if (!pass.training()) return chosen;
  // For a recomputed part, which keeps its input: lists no larger than that are kept too, others chosen again, by all
  // ranks alike.
  const double input = 4.0 * static_cast<double>(at.seen.batch * tokens * heads * q.dim(3)) / spread.parts();
  double size = chosen == nullptr ? 0 : bytes(*chosen) / input;
  if (chosen != nullptr) spread.largest({&size, 1});
  if (size <= 1) kept_[sized(layer)] = chosen;
  return chosen;
}

// The scores of the sparse heads that this rank chooses for; controls score nothing.
work::Selection Chooser::choice_work(const At& at) const {
  work::Selection work{.kind = work::Selection::Kind::kChoice, .keys = at.spread.tokens()};
  const parallel::Had share = at.spread.share(tiles_->order);
  for (std::int64_t h = share.first_head; config_.mode == "dynamic" && h < share.last_head; ++h) {
    const Head& head = controller_.head(at.seen.layer, h);
    if (head.sparse == 0) continue;
    work.rows += at.seen.batch * (share.last_group - share.first_group) * static_cast<std::int64_t>(head.samples);
    work.width = std::max(work.width, static_cast<std::int64_t>(head.rank));
  }
  return work;
}

Chooser::Lists Chooser::part_of(const At& at, const KeyLists& whole) const {
  const parallel::Had share = at.spread.share(tiles_->order);
  return std::make_shared<KeyLists>(
      lists::copy_of(lists::ListsView(whole)
                         .some_heads(share.first_head, share.last_head)
                         .some_queries(tiles_->order.group_starts[sized(share.first_group)],
                                       tiles_->order.group_starts[sized(share.last_group)])));
}

Chooser::Lists Chooser::choose(const At& at) {
  if (config_.mode == "dynamic") return dynamic_lists(at);
  if (pass.step < config_.start) return nullptr;
  const lists::TokenOrder& order = tiles_->order;
  const double share = config_.control_keys();
  const std::int64_t batch = at.seen.batch;
  if (config_.mode == "random") {
    const std::uint64_t seed = controller_.options_.seed * 1000003 + static_cast<std::uint64_t>(pass.step) * 1009 +
                               static_cast<std::uint64_t>(at.seen.layer);
    // Drawn one clip after another, those of other ranks too.
    return part_of(
        at, lists::random_own_lists(order, batch, shape_.heads, share, seed, tiles_->always, at.spread.first_clip()));
  }
  if (config_.mode == "static") {
    if (!has_averages(at.seen.layer)) return nullptr;
    return part_of(at, static_lists(at.seen.layer, batch));
  }
  // Rank 0 runs passes of its own between those of all ranks (the page of a run), and then needs more than its share.
  const parallel::Had own = at.spread.share(order);
  const std::shared_ptr<const KeyLists>& fixed = controller_.fixed_;
  if (fixed == nullptr || fixed->batch != batch || fixed->heads != own.last_head - own.first_head ||
      fixed->groups() != own.last_group - own.first_group) {
    controller_.fixed_ =
        part_of(at, config_.mode == "own" ? lists::own_lists(order, batch, shape_.heads, tiles_->always)
                                          : lists::window_lists(order, batch, shape_.heads, share, tiles_->always));
  }
  return controller_.fixed_;
}

// Heads that score the same number of queries are chosen for together. Every rank predicts for its tokens, and chooses
// for its heads and groups.
Chooser::Lists Chooser::dynamic_lists(const At& at) {
  const int layer = at.seen.layer;
  const lists::TokenOrder& order = tiles_->order;
  std::map<std::int64_t, std::vector<predict::ChosenHead>> by_samples;
  // Whole tiles where they are cheaper for the layer: they need more keys for the same mass, each of them for less.
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
    const auto keep =
        by_mass
            ? static_cast<std::int64_t>(std::ceil(more * static_cast<double>(order.tokens()) / granularity - kRounding))
            : lists::budget_of(share_for(layer, h), order.tokens());
    by_samples[static_cast<std::int64_t>(controller_.head(layer, h).samples)].push_back({h, keep});
  }
  const parallel::Had own = at.spread.share(order);
  std::deque<KeyLists> chosen;
  std::map<std::int64_t, std::pair<const KeyLists*, std::int64_t>> where;  // head -> its place
  for (const auto& [samples, members] : by_samples) {
    predict::ChooseInput choose{.order = &order,
                                .head_dim = shape_.head_dim,
                                .samples = samples,
                                .granularity = granularity,
                                .always = tiles_->always,
                                .beside = by_mass,
                                .first_group = own.first_group,
                                .last_group = own.last_group};
    std::vector<std::int64_t> heads;
    for (const predict::ChosenHead& member : members) {
      heads.push_back(member.head);
      if (member.head >= own.first_head && member.head < own.last_head) choose.members.push_back(member);
    }
    const std::vector<std::int32_t>& rows = tiles_->sampled(samples);
    predict::Predicted low =
        predict::predict_heads(*state_.predictor, at.seen, heads, at.spread.rows_here(rows), at.threads);
    if (!again_) {  // scores of the same q and k are known to be finite
      std::array<double, 2> most = predict::largest_magnitudes(low, at.threads);
      at.spread.largest(most);
      if (!predict::scores_are_finite(most, low.rank)) {
        ++controller_.fallbacks_;
        if (controller_.on_fallback) controller_.on_fallback(pass.step, layer);
        return nullptr;
      }
    }
    std::vector<Spread::Wants> wants;
    for (int r = 0; r < at.spread.parts(); ++r) {
      const parallel::Had each = at.spread.share(r, order);
      wants.push_back({std::lower_bound(heads.begin(), heads.end(), each.first_head) - heads.begin(),
                       std::lower_bound(heads.begin(), heads.end(), each.last_head) - heads.begin(),
                       each.first_group * samples, each.last_group * samples});
    }
    low = at.spread.bring(std::move(low), static_cast<std::int64_t>(heads.size()), rows, wants);
    if (own.first_group == own.last_group) continue;
    chosen.push_back(predict::choose_keys(low, choose, at.threads));
    for (std::size_t i = 0; i < choose.members.size(); ++i) {
      where[choose.members[i].head] = {&chosen.back(), static_cast<std::int64_t>(i)};
    }
  }
  if (chosen.size() == 1 && chosen.front().heads == own.last_head - own.first_head) {
    return std::make_shared<KeyLists>(std::move(chosen.front()));
  }
  std::vector<std::int32_t> starts;
  for (std::int64_t g = own.first_group; g <= own.last_group; ++g) {
    starts.push_back(order.group_starts[sized(g)] - order.group_starts[sized(own.first_group)]);
  }
  lists::KeyListsBuilder builder(at.seen.batch, own.last_head - own.first_head, order.tokens(), starts, granularity);
  for (std::int64_t b = 0; b < at.seen.batch; ++b) {
    for (std::int64_t h = own.first_head; h < own.last_head; ++h) {
      const auto found = where.find(h);
      if (found == where.end()) {
        builder.add_dense_head();
      } else {
        builder.add_head(*found->second.first, b, found->second.second);
      }
    }
  }
  return std::make_shared<KeyLists>(builder.finish());
}

// The share of the true mass that the lists of each clip cover; 1 where every head is dense.
std::vector<double> Chooser::covered(const At& at, const KeyLists& own) const {
  const lists::TokenOrder& order = tiles_->order;
  std::vector<std::int32_t> groups;  // ascending, none twice
  for (std::int64_t i = 0; i < std::min(kCheckedGroups, order.groups()); ++i) {
    groups.push_back(static_cast<std::int32_t>((i * order.groups() / kCheckedGroups + at.seen.layer) % order.groups()));
  }
  std::sort(groups.begin(), groups.end());
  const KeyLists lists = at.spread.of_all_shares(own, order, groups);
  const Spread::Heads q = at.spread.by_heads(at.seen.q), k = at.spread.by_heads(at.seen.k);
  predict::CoverageInput in{.batch = at.seen.batch,
                            .first_head = q.first,
                            .heads = q.count,
                            .head_dim = shape_.head_dim,
                            .q = q.values,
                            .k = k.values};
  for (const std::int32_t g : groups) in.first_tokens.push_back(order.group_starts[sized(g)]);
  const std::vector<double> masses = at.spread.of_all_heads(predict::coverage(in, lists, at.threads), at.seen.batch);
  std::vector<double> clips(sized(at.seen.batch));
  for (std::int64_t b = 0; b < at.seen.batch; ++b) {
    double mass = 0, sparse = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      if (lists.dense(b, h)) continue;
      mass += masses[sized(h * at.seen.batch + b)];
      ++sparse;
    }
    clips[sized(b)] = sparse > 0 ? mass / sparse : 1;
  }
  return clips;
}

// Clip by clip, so that it does not matter with which others a clip is sampled.
Chooser::Lists Chooser::held_lists(const At& at) {
  const predict::Seen& seen = at.seen;
  HeldLists::Layer& held = held_->layers[{pass.stream, seen.layer}];
  std::vector<std::uint8_t> keep;
  if (held.lists != nullptr && held.lists->batch == seen.batch && held.tiles == tiles_) {
    const std::vector<double> now = covered(at, *held.lists);
    for (std::size_t b = 0; b < now.size(); ++b) keep.push_back(now[b] >= held.covered[b] - kMayLose ? 1 : 0);
    if (std::count(keep.begin(), keep.end(), 1) == seen.batch) {
      ++controller_.reused_;
      return held.lists;
    }
  }
  HeldLists::Layer fresh{choose(at), {}, tiles_};
  if (fresh.lists != nullptr) fresh.covered = covered(at, *fresh.lists);
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
