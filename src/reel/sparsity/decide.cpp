// Looking at true scores, and what follows from them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/predict/choose.h"
#include "reel/sparsity/chooser.h"

namespace reel::sparsity {

namespace {

constexpr std::int64_t kProfiledGroups = 4;
constexpr double kAverageDecay = 0.6;
// A predictor is good when its list carries this share of the mass of the best list of the same size; a sparse head may
// fall a little below before it turns dense again, so that it does not flicker.
constexpr double kGood = 0.92, kStillGood = 0.87;
constexpr double kStillPays = 1.15;

}  // namespace

void Chooser::look(predict::Seen seen, Threads& threads) {
  const bool now = controller_.profiles_at(pass.step) && pass.accumulated == 0, dynamic = config_.mode == "dynamic";
  if (!dynamic && config_.mode != "static") return;
  // Most passes teach nothing and are not read; choose_keys looks for numbers that are not finite by itself.
  if (!now && !(dynamic && state_.predictor->learns_always())) return;
  // A clip whose numbers are not finite teaches nothing, and the profile of it would stay in the averages for good.
  const std::size_t size = sized(seen.batch * seen.tokens * shape_.heads * shape_.head_dim);
  double spoilt =
      kernels::any_not_finite({seen.q, size}, threads) || kernels::any_not_finite({seen.k, size}, threads) ? 1 : 0;
  if (seen.ranks != nullptr) seen.ranks->largest({&spoilt, 1});
  if (spoilt != 0) return;
  // What the predictor knew before this pass is what is judged: the clip at hand must not help it.
  const bool known = dynamic && state_.predictor->knows(seen.layer);
  predict::Ranks::Heads q, k;
  predict::ClipHeads clip;
  if (seen.ranks != nullptr && (now || !known)) {
    q = seen.ranks->by_heads(seen.q), k = seen.ranks->by_heads(seen.k);
    if (q.count > 0) clip = {q.first, q.count, q.values.data(), k.values.data()};
    seen.clip = &clip;
  }
  if (!dynamic) return average_weights(seen, threads);
  if (known && now) profile(seen, threads);
  state_.predictor->learn(seen, now, threads);
  if (!known && state_.predictor->knows(seen.layer)) profile(seen, threads);
}

// The true scores of one clip that this rank computes: of some groups, or of all for averages. What predictors learn
// from comes on top and is small.
work::Selection Chooser::profile_work(const predict::Seen& seen) const {
  work::Selection work{work::Selection::Kind::kProfile, 0, seen.all_tokens(), shape_.head_dim};
  const bool dynamic = config_.mode == "dynamic";
  if (!controller_.profiles_at(pass.step) || pass.accumulated != 0 || (!dynamic && config_.mode != "static"))
    return work;
  const std::int64_t groups = tiles_->order.groups(), looked = dynamic ? std::min(kProfiledGroups, groups) : groups;
  const std::int64_t parts = seen.ranks != nullptr ? std::ssize(seen.ranks->token_starts) - 1 : 1;
  work.rows = (shape_.heads + parts - 1) / parts * looked * seen.all_tokens() / groups;
  return work;
}

// Each rank looks at some of the heads; all of them decide about all heads.
void Chooser::profile(const predict::Seen& seen, Threads& threads) {
  const std::int64_t dim = shape_.head_dim, tokens = seen.all_tokens();
  const predict::ClipHeads clip = seen.clip_of(shape_);
  predict::Seen first = seen;
  first.batch = 1;
  std::vector<std::int64_t> heads(sized(shape_.heads));
  std::iota(heads.begin(), heads.end(), 0);
  const std::int64_t all = config_.group[0] * config_.group[1] * config_.group[2];
  std::vector<std::int32_t> groups;
  const std::int64_t looked = std::min(kProfiledGroups, tiles_->order.groups());
  for (std::int64_t i = 0; i < looked; ++i) {
    groups.push_back(static_cast<std::int32_t>((i * tiles_->order.groups() / looked + pass.step * 7 + seen.layer * 3) %
                                               tiles_->order.groups()));
  }
  predict::ProfileInput in;
  in.keys = tokens, in.head_dim = dim;
  in.q_stride = in.k_stride = clip.count * dim;
  in.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  in.mass = config_.mass;
  in.always = tiles_->always;
  const bool fixed = config_.keys > 0 || !config_.layer_keys.empty();
  in.samples = config_.samples > 0 ? std::vector<std::int64_t>{config_.samples}
                                   : std::vector<std::int64_t>{std::min<std::int64_t>(16, all), all};
  // The queries that are scored, group by group and choice by choice.
  std::vector<std::int32_t> rows;
  for (const std::int32_t g : groups) {
    in.groups.push_back({tiles_->order.group_starts[sized(g)], tiles_->order.group_starts[sized(g) + 1]});
    for (const std::int64_t samples : in.samples) {
      const auto& sampled = tiles_->sampled(samples);
      rows.insert(rows.end(), sampled.begin() + g * samples, sampled.begin() + (g + 1) * samples);
    }
  }
  for (std::int64_t h = 0; h < shape_.heads; ++h) in.rank = std::max(in.rank, state_.predictor->rank(seen.layer, h));
  predict::Predicted low;
  if (seen.ranks == nullptr || seen.ranks->group == 0) {
    low = predict::predict_all(*state_.predictor, first, heads, rows, in.rank, threads);
  }
  std::vector<double> numbers;  // of the heads that are looked at here
  for (std::int64_t h = clip.first; h < clip.first + clip.count; ++h) {
    in.q = clip.q + (h - clip.first) * dim, in.k = clip.k + (h - clip.first) * dim;
    in.low_q = low.q.data() + h * in.rank * static_cast<std::int64_t>(rows.size());
    in.low_k = low.k.data() + h * in.rank * tokens;
    Head head = controller_.head(seen.layer, h);
    in.size = fixed || head.profiles > 0 ? share_for(seen.layer, h) : tiles_->held_share + 0.1;
    add_to_averages(head, predict::profile_head(in, threads), state_.predictor->rank(seen.layer, h));
    for (const HeadField& field : kHeadFields) numbers.push_back(static_cast<double>(head.*field.value));
  }
  if (seen.ranks != nullptr) numbers = seen.ranks->share(numbers, static_cast<std::int64_t>(kHeadFields.size()));
  const double* number = numbers.data();
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    Head& head = state_.heads[sized(seen.layer * shape_.heads + h)];
    const float before = head.profiles;
    for (const HeadField& field : kHeadFields) head.*field.value = static_cast<float>(*number++);
    if (head.profiles > before) decide(seen.layer, h);
  }
}

void Chooser::add_to_averages(Head& head, const predict::HeadProfile& seen, std::int64_t rank) const {
  if (!std::isfinite(seen.covered)) return;  // scores beyond f32: as above
  // As few scored queries as nearly do: 16 suffice on smooth content and fail on lookups.
  const predict::HeadProfile::Predicted* best = &seen.predicted.back();
  for (const auto& each : seen.predicted) {
    if (each.covered >= 0.97 * best->covered && each.needed <= 1.15 * best->needed) {
      best = &each;
      break;
    }
  }
  const auto average = [&](float& value, double fresh) {
    const double decay = head.profiles == 0 ? 0 : kAverageDecay;
    value = static_cast<float>(decay * static_cast<double>(value) + (1 - decay) * fresh);
  };
  average(head.query_sparsity, seen.query_sparsity);
  average(head.overlap, seen.overlap);
  average(head.needed, seen.needed);
  average(head.needed_predicted, std::min(1.0, best->needed + tiles_->held_share));
  average(head.needed_tiles, std::min(1.0, best->needed_tiles + tiles_->held_tiles_share));
  average(head.covered, best->covered);
  average(head.quality, seen.covered > 0 ? best->covered / seen.covered : 0);
  average(head.recall, best->recall);
  head.rank = static_cast<float>(rank);
  head.samples = static_cast<float>(best->samples);
  head.profiles += 1;
}

// Whether a head that was looked at is sparse from now on.
void Chooser::decide(int layer, std::int64_t h) {
  Head& head = state_.heads[sized(layer * shape_.heads + h)];
  if (!config_.layer_keys.empty()) {  // told, not decided
    head.sparse = pass.step >= config_.start && share_for(layer, h) < 1 ? 1.0f : 0.0f;
    return;
  }
  const double share = std::max(share_for(layer, h), tiles_->held_share);
  const bool was = head.sparse != 0;
  const bool good = static_cast<double>(head.quality) >= (was ? kStillGood : kGood);
  const bool pays = share <= static_cast<double>(state_.break_even.share) * (was ? kStillPays : 1.0);
  head.sparse = pass.step >= config_.start && head.profiles >= 2 && good && pays && lists_fit(layer, h) ? 1.0f : 0.0f;
}

// Whether the lists of this head fit next to those of the heads that are sparse already.
bool Chooser::lists_fit(int layer, std::int64_t h) const {
  if (controller_.options_.lists_bytes == 0) return true;
  double keys = 0;
  for (int l = 0; l < static_cast<int>(shape_.layers); ++l) {
    for (std::int64_t i = 0; i < shape_.heads; ++i) {
      if (controller_.head(l, i).sparse != 0 || (l == layer && i == h)) {
        keys += std::max(share_for(l, i), tiles_->held_share) * static_cast<double>(tiles_->order.tokens());
      }
    }
  }
  return 4 * keys * static_cast<double>(tiles_->order.groups() * batch_) <= controller_.options_.lists_bytes;
}

}  // namespace reel::sparsity
