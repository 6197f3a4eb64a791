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

void Chooser::look(const At& at) {
  const predict::Seen& seen = at.seen;
  const bool now = controller_.profiles_at(pass.step) && pass.accumulated == 0, dynamic = config_.mode == "dynamic";
  if (!dynamic && config_.mode != "static") return;
  // Most passes teach nothing and are not read; what chooses keys looks for numbers that are not finite by itself.
  if (!now && !(dynamic && state_.predictor->learns_always())) return;
  // A clip whose numbers are not finite teaches nothing, and the profile of it would stay in the averages for good.
  const std::size_t size = sized(seen.batch * seen.tokens * shape_.heads * shape_.head_dim);
  double spoilt =
      kernels::any_not_finite({seen.q, size}, at.threads) || kernels::any_not_finite({seen.k, size}, at.threads) ? 1
                                                                                                                 : 0;
  at.spread.largest({&spoilt, 1});
  if (spoilt != 0) return;
  // What the predictor knew before this pass is what is judged: the clip at hand must not help it.
  const bool known = dynamic && state_.predictor->knows(seen.layer);
  Spread::Heads q, k;  // of the first clip of all
  if (now || !known) q = at.spread.by_heads(seen.q), k = at.spread.by_heads(seen.k);
  if (!dynamic) return average_weights(at, q, k);
  if (known && now) profile(at, q, k);
  learn(at, {q.first, q.count, q.values, k.values}, now);
  if (!known && state_.predictor->knows(seen.layer)) profile(at, q, k);
}

void Chooser::learn(const At& at, const predict::ClipHeads& clip, bool profiled) {
  predict::Predictor& predictor = *state_.predictor;
  const predict::Origin* origin = at.seen.origin;
  const std::int64_t tokens = at.spread.tokens(), width = shape_.heads * shape_.head_dim;
  const predict::Wanted wanted = predictor.wants(origin, at.seen.layer, tokens, profiled);
  predict::Lesson lesson{.layer = at.seen.layer, .tokens = tokens, .profiled = profiled, .origin = origin};
  if (wanted.sums) {
    lesson.sums = at.spread.of_all_heads(predictor.sums(clip, tokens, at.threads), predictor.sums_per_head());
  }
  Spread::Rows q, k, hidden;
  if (!wanted.q.empty()) q = at.spread.rows_of_first_clip(at.seen.q, width, wanted.q);
  if (!wanted.k.empty()) k = at.spread.rows_of_first_clip(at.seen.k, width, wanted.k);
  if (!wanted.hidden.empty()) hidden = at.spread.rows_of_first_clip(origin->hidden, origin->width, wanted.hidden);
  lesson.q = q.data, lesson.k = k.data, lesson.hidden = hidden.data;
  if (!at.spread.has_all_rows() && static_cast<std::int64_t>(wanted.q.size()) < tokens) lesson.q_tokens = wanted.q;
  predictor.learn_from(lesson, at.threads);
}

// The true scores of one clip that this rank computes: of some groups, or of all for averages. What predictors learn
// from comes on top and is small.
work::Selection Chooser::profile_work(const At& at) const {
  const std::int64_t tokens = at.spread.tokens(), parts = at.spread.parts();
  work::Selection work{work::Selection::Kind::kProfile, 0, tokens, shape_.head_dim};
  const bool dynamic = config_.mode == "dynamic";
  if (!controller_.profiles_at(pass.step) || pass.accumulated != 0 || (!dynamic && config_.mode != "static"))
    return work;
  const std::int64_t groups = tiles_->order.groups(), looked = dynamic ? std::min(kProfiledGroups, groups) : groups;
  work.rows = (shape_.heads + parts - 1) / parts * looked * tokens / groups;
  return work;
}

// Each rank looks at some of the heads; all of them decide about all heads.
void Chooser::profile(const At& at, const Spread::Heads& q, const Spread::Heads& k) {
  const std::int64_t dim = shape_.head_dim, tokens = at.spread.tokens();
  const int layer = at.seen.layer;
  const lists::TokenOrder& order = tiles_->order;
  const std::int64_t all = config_.group[0] * config_.group[1] * config_.group[2];
  std::vector<std::int32_t> groups;
  const std::int64_t looked = std::min(kProfiledGroups, order.groups());
  for (std::int64_t i = 0; i < looked; ++i) {
    groups.push_back(
        static_cast<std::int32_t>((i * order.groups() / looked + pass.step * 7 + layer * 3) % order.groups()));
  }
  predict::ProfileInput in;
  in.keys = tokens, in.head_dim = dim;
  in.q_stride = in.k_stride = q.count * dim;
  in.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  in.mass = config_.mass;
  in.always = tiles_->always;
  const bool fixed = config_.keys > 0 || !config_.layer_keys.empty();
  in.samples = config_.samples > 0 ? std::vector<std::int64_t>{config_.samples}
                                   : std::vector<std::int64_t>{std::min<std::int64_t>(16, all), all};
  // The queries that are scored, group by group and choice by choice.
  std::vector<std::int32_t> rows;
  for (const std::int32_t g : groups) {
    in.groups.push_back({order.group_starts[sized(g)], order.group_starts[sized(g) + 1]});
    for (const std::int64_t samples : in.samples) {
      const auto& sampled = tiles_->sampled(samples);
      rows.insert(rows.end(), sampled.begin() + g * samples, sampled.begin() + (g + 1) * samples);
    }
  }
  std::vector<double> numbers;  // of the heads that are looked at here
  if (at.spread.has_first_clip()) {
    std::vector<std::int64_t> heads(sized(shape_.heads));
    std::iota(heads.begin(), heads.end(), 0);
    predict::Seen first = at.seen;
    first.batch = 1;
    const predict::Predicted low =
        at.spread.bring(predict::predict_heads(*state_.predictor, first, heads, at.spread.rows_here(rows), at.threads),
                        shape_.heads, rows, at.spread.all_rows_by_heads(static_cast<std::int64_t>(rows.size())));
    in.rank = low.rank;
    for (std::int64_t i = 0; i < q.count; ++i) {
      const std::int64_t h = q.first + i;
      in.q = q.values + i * dim, in.k = k.values + i * dim;
      in.low_q = low.q.data() + i * in.rank * static_cast<std::int64_t>(rows.size());
      in.low_k = low.k.data() + i * in.rank * tokens;
      Head head = controller_.head(layer, h);
      in.size = fixed || head.profiles > 0 ? share_for(layer, h) : tiles_->held_share + 0.1;
      add_to_averages(head, predict::profile_head(in, at.threads), state_.predictor->rank(layer, h));
      for (const HeadField& field : kHeadFields) numbers.push_back(static_cast<double>(head.*field.value));
    }
  }
  numbers = at.spread.of_all_heads(std::move(numbers), static_cast<std::int64_t>(kHeadFields.size()));
  const double* number = numbers.data();
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    Head& head = state_.heads[sized(layer * shape_.heads + h)];
    const float before = head.profiles;
    for (const HeadField& field : kHeadFields) head.*field.value = static_cast<float>(*number++);
    if (head.profiles > before) decide(layer, h);
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
