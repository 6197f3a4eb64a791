// Looking at true scores, and what follows from them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/elementwise.h"
#include "sparsity/controller.h"

namespace reel::sparsity {

namespace {

constexpr std::int64_t kProfiledGroups = 4;
constexpr double kAverageDecay = 0.6;
// A predictor is good when its list carries this share of the mass of the best list of the same size; a sparse head may
// fall a little below before it turns dense again, so that it does not flicker.
constexpr double kGood = 0.92, kStillGood = 0.87;
constexpr double kStillPays = 1.15;

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

bool Controller::profiles_at(std::int64_t step) const {
  const std::int64_t every = step < 100 ? std::max<std::int64_t>(1, config_.profile_every / 5) : config_.profile_every;
  return step % every == 0;
}

void Controller::look(const Seen& seen, Threads& threads) {
  const bool now = profiles_at(step_);
  if (config_.mode != "dynamic" && (config_.mode != "static" || !now)) return;
  // A clip whose numbers are not finite teaches nothing, and the profile of it would stay in the averages for good.
  const std::size_t size = sized(seen.batch * seen.tokens * shape_.heads * shape_.head_dim);
  if (kernels::any_not_finite({seen.q, size}, threads) || kernels::any_not_finite({seen.k, size}, threads)) return;
  if (config_.mode == "static") return average_weights(seen, threads);
  // What the predictor knew before this pass is what is judged: the clip at hand must not help it.
  const bool known = predictor_->knows(seen.layer);
  if (known && now) profile(seen, threads);
  predictor_->learn(seen, now, threads);
  if (!known && predictor_->knows(seen.layer)) profile(seen, threads);
}

void Controller::profile(const Seen& seen, Threads& threads) {
  const std::int64_t dim = shape_.head_dim, width = shape_.heads * dim;
  Seen first = seen;
  first.batch = 1;
  std::vector<std::int64_t> heads(sized(shape_.heads));
  std::iota(heads.begin(), heads.end(), 0);
  const std::int64_t all = config_.group[0] * config_.group[1] * config_.group[2];
  std::vector<std::int32_t> groups;
  const std::int64_t looked = std::min(kProfiledGroups, order_->groups());
  for (std::int64_t i = 0; i < looked; ++i) {
    groups.push_back(
        static_cast<std::int32_t>((i * order_->groups() / looked + step_ * 7 + seen.layer * 3) % order_->groups()));
  }
  ProfileInput in;
  in.keys = seen.tokens, in.head_dim = dim;
  in.q_stride = in.k_stride = width;
  in.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  in.mass = config_.mass;
  in.samples = config_.samples > 0 ? std::vector<std::int64_t>{config_.samples}
                                   : std::vector<std::int64_t>{std::min<std::int64_t>(16, all), all};
  // The queries that are scored, group by group and choice by choice.
  std::vector<std::int32_t> rows;
  for (const std::int32_t g : groups) {
    in.groups.push_back({order_->group_starts[sized(g)], order_->group_starts[sized(g) + 1]});
    for (const std::int64_t samples : in.samples) {
      const auto& tokens = samples_of(samples);
      rows.insert(rows.end(), tokens.begin() + g * samples, tokens.begin() + (g + 1) * samples);
    }
  }
  for (std::int64_t h = 0; h < shape_.heads; ++h) in.rank = std::max(in.rank, predictor_->rank(seen.layer, h));
  Buffer<float> low_q(sized(shape_.heads * in.rank) * rows.size()), low_k(sized(shape_.heads * seen.tokens * in.rank));
  predictor_->predict(first, heads, rows, in.rank, low_q.data(), low_k.data(), threads);
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    in.q = seen.q + h * dim, in.k = seen.k + h * dim;
    in.low_q = low_q.data() + h * in.rank * static_cast<std::int64_t>(rows.size());
    in.low_k = low_k.data() + h * in.rank * seen.tokens;
    in.size = config_.keys > 0                   ? config_.keys
              : head(seen.layer, h).profiles > 0 ? static_cast<double>(head(seen.layer, h).needed_predicted)
                                                 : 0.1;
    decide(seen.layer, h, profile_head(in, threads));
  }
}

void Controller::decide(int layer, std::int64_t h, const HeadProfile& seen) {
  Head& head = heads_[sized(layer * shape_.heads + h)];
  if (!std::isfinite(seen.covered)) return;  // scores beyond f32: as above
  // As few scored queries as nearly do: 16 suffice on smooth content and fail on lookups.
  const HeadProfile::Predicted* best = &seen.predicted.back();
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
  average(head.needed_predicted, best->needed);
  average(head.needed_tiles, best->needed_tiles);
  average(head.covered, best->covered);
  average(head.quality, seen.covered > 0 ? best->covered / seen.covered : 0);
  average(head.recall, best->recall);
  head.rank = static_cast<float>(predictor_->rank(layer, h));
  head.samples = static_cast<float>(best->samples);
  head.profiles += 1;
  if (!config_.layer_keys.empty()) {  // told, not decided
    head.sparse = step_ >= config_.start && share_for(layer, h) < 1 ? 1.0f : 0.0f;
    return;
  }
  const double tile = config_.keys > 0 ? 0 : 1.0 / static_cast<double>(order_->groups());
  const double share = share_for(layer, h) + tile;
  const bool was = head.sparse != 0;
  const bool good = static_cast<double>(head.quality) >= (was ? kStillGood : kGood);
  const bool pays = share <= static_cast<double>(options_.break_even.share) * (was ? kStillPays : 1.0);
  head.sparse = step_ >= config_.start && head.profiles >= 2 && good && pays && lists_fit(layer, h) ? 1.0f : 0.0f;
}

// Whether the lists of this head fit beside those of the heads that are sparse already.
bool Controller::lists_fit(int layer, std::int64_t h) const {
  if (options_.lists_bytes == 0) return true;
  double keys = 0;
  for (int l = 0; l < static_cast<int>(shape_.layers); ++l) {
    for (std::int64_t i = 0; i < shape_.heads; ++i) {
      if (head(l, i).sparse != 0 || (l == layer && i == h)) {
        keys += share_for(l, i) * static_cast<double>(order_->tokens());
      }
    }
  }
  return 4 * keys * static_cast<double>(order_->groups() * batch_) <= options_.lists_bytes;
}

}  // namespace reel::sparsity
