#include "sparsity/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "sparsity/choose.h"
#include "sparsity/lists.h"

namespace reel::sparsity {

using attention::KeyLists;
using tape::Tensor;

namespace {

constexpr std::int64_t kProfiledGroups = 4;
constexpr double kMomentDecay = 0.8, kAverageDecay = 0.6;
// A predictor is good when its list carries this share of the mass of the best list of the same size; a sparse head may
// fall a little below before it turns dense again, so that it does not flicker.
constexpr double kGood = 0.92, kStillGood = 0.87;
constexpr double kStillPays = 1.15;

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

Moments moments_of(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t dim, Threads& threads) {
  Buffer<float> product(sized(dim * dim)), sum(sized(dim));
  kernels::gemm({.form = kernels::Form::kDytX,
                 .rows = sized(dim),
                 .columns = sized(dim),
                 .depth = sized(count),
                 .a = {rows, sized(stride)},
                 .b = {rows, sized(stride)},
                 .c = product.data(),
                 .c_stride = sized(dim)},
                threads);
  kernels::column_sums({rows, sized(count), sized(dim), sized(stride)}, sum.data(), kernels::Write::kOverwrite,
                       threads);
  Moments moments;
  moments.dim = dim;
  for (const float value : product) moments.product.push_back(static_cast<double>(value) / static_cast<double>(count));
  for (const float value : sum) moments.mean.push_back(static_cast<double>(value) / static_cast<double>(count));
  return moments;
}

// Checkpoints keep f32: what is kept is what is used.
void round_to_float(Moments& moments) {
  for (double& value : moments.product) value = static_cast<float>(value);
  for (double& value : moments.mean) value = static_cast<float>(value);
}

bool finite(const Moments& moments) {
  return std::all_of(moments.product.begin(), moments.product.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

Controller::Controller(const SparsityConfig& config, const Shape& shape, double break_even, std::uint64_t seed)
    : config_(config),
      shape_(shape),
      break_even_(config.break_even > 0 ? config.break_even : break_even),
      seed_(seed),
      heads_(sized(shape.layers * shape.heads)),
      layers_(sized(shape.layers)) {
  for (Layer& layer : layers_) {
    layer.q.resize(sized(shape.heads));
    layer.k.resize(sized(shape.heads));
    layer.low.resize(sized(shape.heads));
  }
}

void Controller::begin(std::int64_t step, bool training) {
  step_ = step;
  training_ = training;
  kept_pairs_ = all_pairs_ = 0;
}

std::shared_ptr<const TokenOrder> Controller::order(const std::array<std::int64_t, 3>& grid,
                                                    const std::vector<std::int64_t>& cuts) {
  if (order_ == nullptr || order_->grid != grid || cuts_ != cuts) {
    if (order_ != nullptr) {  // averages of another grid mean nothing; those of a checkpoint are of this one
      for (Layer& layer : layers_) layer.averages = Buffer<float>();
    }
    order_ = std::make_shared<TokenOrder>(tile_order(grid, config_.tile(), cuts));
    cuts_ = cuts;
    sample_tokens_.clear();
    fixed_ = nullptr;
  }
  return order_;
}

const std::vector<std::int32_t>& Controller::samples_of(std::int64_t samples) {
  auto& tokens = sample_tokens_[samples];
  if (tokens.empty()) tokens = sample_queries(*order_, samples);
  return tokens;
}

bool Controller::profile_now() const {
  const std::int64_t every = step_ < 100 ? std::max<std::int64_t>(1, config_.profile_every / 5) : config_.profile_every;
  return training_ && step_ % every == 0;
}

bool Controller::always_dense(int layer) const {
  return std::find(config_.dense_layers.begin(), config_.dense_layers.end(), layer) != config_.dense_layers.end();
}

double Controller::share_for(int layer, std::int64_t h) const {
  return config_.keys > 0 ? config_.keys : static_cast<double>(head(layer, h).needed_predicted);
}

Tensor Controller::attend(tape::Tape& tape, int layer, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (tape.ghost() || always_dense(layer)) return tape::attention(tape, q, k, v);
  REEL_CHECK(order_ != nullptr && order_->tokens() == q.dim(1) && layer < shape_.layers);
  std::shared_ptr<const KeyLists> lists;
  tape.run({.name = "choose keys"}, [&] {
    if ((config_.mode == "dynamic" || config_.mode == "static") && profile_now() && !tape.rerunning()) {
      profile(layer, q, k, tape.threads());
    }
    lists = choose(layer, q, k, tape.threads());
  });
  const double pairs = static_cast<double>(q.dim(0) * q.dim(2) * q.dim(1)) * static_cast<double>(k.dim(1));
  all_pairs_ += pairs;
  kept_pairs_ += lists == nullptr ? pairs : static_cast<double>(lists->pairs());
  if (lists != nullptr && on_lists && !tape.rerunning()) on_lists(layer, *lists);
  return tape::attention(tape, q, k, v, lists);
}

std::shared_ptr<const KeyLists> Controller::choose(int layer, const Tensor& q, const Tensor& k, Threads& threads) {
  const std::int64_t batch = q.dim(0);
  const double share = config_.keys > 0 ? config_.keys : 0.1;
  if (config_.mode == "dynamic") {
    bool any = false;
    for (std::int64_t h = 0; h < shape_.heads; ++h) any |= head(layer, h).sparse != 0;
    if (!any) return nullptr;
    KeyLists lists = dynamic_lists(layer, q, k, threads);
    return lists.heads == 0 ? nullptr : std::make_shared<KeyLists>(std::move(lists));
  }
  if (step_ < config_.start) return nullptr;
  if (config_.mode == "random") {
    const std::uint64_t seed =
        seed_ * 1000003 + static_cast<std::uint64_t>(step_) * 1009 + static_cast<std::uint64_t>(layer);
    return std::make_shared<KeyLists>(random_own_lists(*order_, batch, shape_.heads, share, seed));
  }
  if (config_.mode == "static") {
    if (layers_[sized(layer)].averages.size() == 0) return nullptr;
    return std::make_shared<KeyLists>(static_lists(layer, batch));
  }
  if (fixed_ == nullptr || fixed_->batch != batch) {
    fixed_ = std::make_shared<KeyLists>(config_.mode == "own" ? own_lists(*order_, batch, shape_.heads)
                                                              : window_lists(*order_, batch, shape_.heads, share));
  }
  return fixed_;
}

KeyLists Controller::dynamic_lists(int layer, const Tensor& q, const Tensor& k, Threads& threads) {
  const std::int64_t batch = q.dim(0), tokens = q.dim(1);
  // Heads that score the same number of queries are chosen for together.
  std::map<std::int64_t, std::vector<ChosenHead>> by_samples;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    if (head(layer, h).sparse == 0) continue;
    const double keep = std::ceil(share_for(layer, h) * static_cast<double>(tokens));
    by_samples[static_cast<std::int64_t>(head(layer, h).samples)].push_back(
        {h, &layers_[sized(layer)].low[sized(h)], static_cast<std::int64_t>(keep)});
  }
  std::deque<KeyLists> chosen;
  std::map<std::int64_t, std::pair<const KeyLists*, std::int64_t>> where;  // head -> its place
  for (const auto& [samples, members] : by_samples) {
    chosen.push_back(choose_keys({.order = order_.get(),
                                  .batch = batch,
                                  .heads = shape_.heads,
                                  .head_dim = shape_.head_dim,
                                  .q = q.data(),
                                  .k = k.data(),
                                  .samples = samples,
                                  .sampled = samples_of(samples),
                                  .members = members},
                                 threads));
    if (chosen.back().heads == 0) {
      if (fallbacks_++ == 0) {
        fmt::print(stderr, "reel: step {}, layer {}: predicted scores are not finite; dense for this step\n", step_,
                   layer);
      }
      return {};
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      where[members[i].head] = {&chosen.back(), static_cast<std::int64_t>(i)};
    }
  }
  if (chosen.size() == 1 && chosen.front().heads == shape_.heads) return std::move(chosen.front());
  attention::KeyListsBuilder builder(batch, shape_.heads, tokens, order_->group_starts);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto at = where.find(h);
      if (at == where.end()) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < order_->groups(); ++g) builder.add(at->second.first->list(b, at->second.second, g));
    }
  }
  return builder.finish();
}

double Controller::sparse_share() const {
  const auto sparse = std::count_if(heads_.begin(), heads_.end(), [](const Head& h) { return h.sparse != 0; });
  return static_cast<double>(sparse) / static_cast<double>(heads_.size());
}

double Controller::kept_share() const { return all_pairs_ > 0 ? kept_pairs_ / all_pairs_ : 1; }

void Controller::profile(int layer, const Tensor& q, const Tensor& k, Threads& threads) {
  if (config_.mode == "static") return average_weights(layer, q, k, threads);
  for (std::int64_t h = 0; h < shape_.heads; ++h) profile_head_of(layer, h, q, k, threads);
}

void Controller::refresh(int layer, std::int64_t h) {
  Layer& l = layers_[sized(layer)];
  LowRank low = closed_form(l.q[sized(h)], l.k[sized(h)],
                            config_.rank > 0 ? config_.rank : std::min<std::int64_t>(32, shape_.head_dim));
  if (config_.rank == 0) {
    const std::int64_t rank = rank_for(low.spectrum, 0.98, low.rank);
    if (rank < low.rank) low = closed_form(l.q[sized(h)], l.k[sized(h)], rank);
  }
  head_of(layer, h).rank = static_cast<float>(low.rank);
  l.low[sized(h)] = std::move(low);
}

void Controller::profile_head_of(int layer, std::int64_t h, const Tensor& q, const Tensor& k, Threads& threads) {
  const std::int64_t tokens = q.dim(1), dim = shape_.head_dim, width = shape_.heads * dim;
  const float* head_q = q.data() + h * dim;  // of the first batch entry
  const float* head_k = k.data() + h * dim;
  Moments fresh_q = moments_of(head_q, width, tokens, dim, threads),
          fresh_k = moments_of(head_k, width, tokens, dim, threads);
  if (!finite(fresh_q) || !finite(fresh_k)) return;
  Layer& l = layers_[sized(layer)];
  // What the predictor knew before this step is what is judged: the clip at hand must not help it.
  const bool known = !l.q[sized(h)].empty();
  if (!known) {
    l.q[sized(h)].mix(fresh_q, 0);
    l.k[sized(h)].mix(fresh_k, 0);
    round_to_float(l.q[sized(h)]);
    round_to_float(l.k[sized(h)]);
    refresh(layer, h);
  }
  const LowRank& low = l.low[sized(h)];
  Buffer<float> low_q(sized(tokens * low.rank)), low_k(sized(tokens * low.rank));
  project(head_q, width, tokens, low.q, low, low_q.data(), low.rank, threads);
  project(head_k, width, tokens, low.k, low, low_k.data(), low.rank, threads);

  ProfileInput in;
  in.keys = tokens, in.head_dim = dim, in.rank = low.rank;
  in.q = head_q, in.k = head_k, in.q_stride = in.k_stride = width;
  in.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  in.low_q = low_q.data(), in.low_k = low_k.data();
  in.group_starts = order_->group_starts;
  const std::int64_t looked = std::min(kProfiledGroups, order_->groups());
  for (std::int64_t i = 0; i < looked; ++i) {
    in.groups.push_back((i * order_->groups() / looked + step_ * 7 + layer * 3 + h) % order_->groups());
  }
  const std::int64_t all = config_.group[0] * config_.group[1] * config_.group[2];
  in.samples = config_.samples > 0 ? std::vector<std::int64_t>{config_.samples}
                                   : std::vector<std::int64_t>{std::min<std::int64_t>(16, all), all};
  for (const std::int64_t samples : in.samples) in.sample_tokens.push_back(samples_of(samples));
  in.mass = config_.mass;
  in.size = config_.keys > 0 ? config_.keys : known ? static_cast<double>(head(layer, h).needed_predicted) : 0.1;
  decide(layer, h, profile_head(in, threads));

  if (known) {
    l.q[sized(h)].mix(fresh_q, kMomentDecay);
    l.k[sized(h)].mix(fresh_k, kMomentDecay);
    round_to_float(l.q[sized(h)]);
    round_to_float(l.k[sized(h)]);
    refresh(layer, h);
  }
}

void Controller::decide(int layer, std::int64_t h, const HeadProfile& seen) {
  Head& head = head_of(layer, h);
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
  average(head.quality, seen.covered > 0 ? best->covered / seen.covered : 0);
  average(head.recall, best->recall);
  head.samples = static_cast<float>(best->samples);
  head.profiles += 1;
  const double tile = 1.0 / static_cast<double>(order_->groups());
  const double share = share_for(layer, h) + tile;
  const bool was = head.sparse != 0;
  const bool good = static_cast<double>(head.quality) >= (was ? kStillGood : kGood);
  const bool pays = share <= break_even_ * (was ? kStillPays : 1.0);
  head.sparse = step_ >= config_.start && head.profiles >= 2 && good && pays ? 1.0f : 0.0f;
}

}  // namespace reel::sparsity
