#include "reel/train/predictor_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/lists/controls.h"
#include "reel/predict/hidden_predictor.h"
#include "reel/predict/qk_predictor.h"
#include "reel/train/trainer.h"

namespace reel::train {

namespace {

using predict::Predictor;
using predict::Seen;

constexpr std::array<std::int64_t, 4> kRanks = {8, 16, 24, 32};
constexpr std::int64_t kMostGroups = 16;

// A forward pass that shows every self-attention on its way.
class Showing : public model::Context {
 public:
  Showing(tape::Tape& on, const TrainedRun& run, std::function<void(const Seen&)> to)
      : Context(on, {.step = run.step}, run.sparsity.get()), to_(std::move(to)) {}
  tape::Tensor attend(int layer, const tape::Tensor& q, const tape::Tensor& k, const tape::Tensor& v,
                      const predict::Origin& origin, const model::Here& here) override {
    to_({layer, q.dim(0), q.dim(1), q.data(), k.data(), &origin});
    return Context::attend(layer, q, k, v, origin, here);
  }

 private:
  std::function<void(const Seen&)> to_;
};

struct Judged {
  std::unique_ptr<Predictor> predictor;
  PredictorFigures figures;
};

std::vector<Judged> predictors_for(const predict::ModelHeads& shape, std::uint64_t seed) {
  std::vector<Judged> all;
  const auto add = [&](const char* kind, std::int64_t rank, std::unique_ptr<Predictor> predictor) {
    all.push_back({std::move(predictor), {.kind = kind, .rank = rank}});
    all.back().figures.heads.resize(sized(shape.layers * shape.heads));
    all.back().figures.ranks_of_head.resize(sized(shape.layers * shape.heads));
  };
  for (const std::int64_t rank : kRanks) {
    if (rank <= shape.head_dim) add("qk", rank, std::make_unique<predict::QkPredictor>(shape, rank));
  }
  add("qk", 0, std::make_unique<predict::QkPredictor>(shape, 0));
  for (const std::int64_t rank : kRanks) {
    if (rank <= shape.head_dim) add("hidden", rank, std::make_unique<predict::HiddenPredictor>(shape, rank, seed));
  }
  return all;
}

// Adds `share` of what a predictor is worth in one layer of one clip.
void judge(Judged& judged, const Seen& seen, const predict::ModelHeads& shape, predict::ProfileInput in, double share,
           Threads& threads) {
  std::vector<std::int32_t> rows;
  for (const auto& [first, end] : in.groups) {
    for (std::int64_t token = first; token < end; ++token) rows.push_back(static_cast<std::int32_t>(token));
  }
  const Predictor& predictor = *judged.predictor;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const std::size_t at = sized(seen.layer * shape.heads + h);
    in.rank = predictor.rank(seen.layer, h);
    Buffer<float> low_q(rows.size() * sized(in.rank)), low_k(sized(seen.tokens * in.rank));
    predictor.predict(seen, std::span(&h, 1), rows, in.rank, low_q.data(), low_k.data(), threads);
    in.q = seen.q + h * shape.head_dim, in.k = seen.k + h * shape.head_dim;
    in.low_q = low_q.data(), in.low_k = low_k.data();
    judged.figures.heads[at].add(predict::found_keys(in, threads), share);
    judged.figures.ranks_of_head[at] = in.rank;
  }
}

}  // namespace

PredictorTable study_predictors(const TrainedRun& run, Threads& threads,
                                const std::function<void(std::int64_t done, std::int64_t of)>& progress) {
  const RunConfig& c = run.config;
  data::Source& source = *run.source;
  const lists::TokenOrder order = token_order(c);
  const predict::ModelHeads shape = run.sparsity->shape();
  PredictorTable study;
  study.tokens = order.tokens();
  // Bounded work for any length: 1,024 tokens get 64 passes to learn from and 4 to be judged on.
  study.learnt = std::clamp<std::int64_t>((1 << 16) / study.tokens, 4, 64);
  study.judged =
      std::min(std::clamp<std::int64_t>((1 << 12) / study.tokens, 1, 4), source.size(data::Split::kValidation));
  if (study.judged < 1) {
    throw Error("no clip is held out, so predictors cannot be judged", "train with data.validation above 0");
  }
  const std::vector<std::int64_t> groups = lists::spread_groups(order, kMostGroups, 0);
  study.groups = static_cast<std::int64_t>(groups.size());
  const std::vector<std::int32_t> always = lists::tokens_of_frames(order, c.sparsity.keep);
  predict::ProfileInput in;
  in.keys = study.tokens, in.head_dim = shape.head_dim, in.size = study.size;
  in.q_stride = in.k_stride = shape.heads * shape.head_dim;
  in.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  in.always = always;
  for (const std::int64_t g : groups) {
    in.groups.emplace_back(order.group_starts[sized(g)], order.group_starts[sized(g) + 1]);
  }

  std::vector<Judged> all = predictors_for(shape, static_cast<std::uint64_t>(c.train.seed));
  tape::Pool pool;
  const Objective objective(c);
  const auto pass = [&](data::Split split, std::int64_t index, const std::function<void(const Seen&)>& to) {
    data::Clip clip;
    if (!source.read(split, index, clip)) throw Error(fmt::format("clip {} cannot be read", index), "look at the data");
    data::Batch batch;
    batch.values = std::move(clip.values);
    batch.text = std::move(clip.text);
    tape::Tape tape(threads, pool, {.gradients = false});
    Showing context(tape, run, to);
    // Noise of its own for the clips that are learnt from.
    const diffusion::Draws draws{0, kValidationStep + (split == data::Split::kTraining ? 1 : 0), index};
    objective.loss(context, *run.model, batch, 1, draws, false);
  };
  const std::int64_t passes = study.learnt + study.judged;
  for (std::int64_t i = 0; i < study.learnt; ++i) {
    pass(data::Split::kTraining, i, [&](const Seen& seen) {
      for (Judged& each : all) each.predictor->learn(seen, true, threads);
    });
    if (progress) progress(i + 1, passes);
  }
  for (std::int64_t i = 0; i < study.judged; ++i) {
    pass(data::Split::kValidation, i, [&](const Seen& seen) {
      for (Judged& each : all) {
        if (!each.predictor->knows(seen.layer)) {
          throw Error(fmt::format("q and k of layer {} are not finite", seen.layer), "study an earlier checkpoint");
        }
        judge(each, seen, shape, in, 1 / static_cast<double>(study.judged), threads);
      }
    });
    if (progress) progress(study.learnt + i + 1, passes);
  }
  for (Judged& each : all) {
    for (const predict::FoundKeys& head : each.figures.heads) {
      each.figures.mean.add(head, 1 / static_cast<double>(each.figures.heads.size()));
    }
    study.predictors.push_back(std::move(each.figures));
  }
  return study;
}

}  // namespace reel::train
