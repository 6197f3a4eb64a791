#include "reel/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/error.h"
#include "reel/cost/machine.h"
#include "reel/model/folder.h"
#include "reel/model/init.h"

namespace reel::train {

using diffusion::Draws;

namespace {

// Messages and waits are recorded, too, as long as this lives.
class RecordedMessages {
 public:
  RecordedMessages(parallel::Team* team, Recorder* recorder) : team_(team) { set(recorder); }
  ~RecordedMessages() { set(nullptr); }
  RecordedMessages(const RecordedMessages&) = delete;
  RecordedMessages& operator=(const RecordedMessages&) = delete;

 private:
  void set(Recorder* recorder) {
    if (team_ != nullptr) team_->world().shared().recorder = recorder;
  }
  parallel::Team* team_;
};

}  // namespace

Trainer::Trainer(const RunConfig& config, Threads& threads, const sparsity::Controller::Options& sparsity,
                 parallel::Team* team)
    : config_(config),
      threads_(threads),
      model_(model::make_denoiser(config.model, tape::Parameters::With::kGradients)),
      team_(team),
      clips_(clips_of(config, team != nullptr ? team->data().size() : 1)),
      sparsity_(make_controller(config, sparsity)),
      objective_(config_) {
  if (config_.train.start_from.empty()) {
    model::initialise(*model_);
  } else {
    model::load_weights(*model_, config_.train.start_from);
  }
  if (team_ != nullptr && team_->world().size() > 1) {
    zero_ = std::make_unique<parallel::Zero>(model_->parameters(), team_->world());
    optimizer_ = std::make_unique<optim::Optimizer>(config_.optim, model_->parameters(), zero_->owned());
  } else {
    optimizer_ = std::make_unique<optim::Optimizer>(config_.optim, model_->parameters());
  }
}

void Trainer::use(model::Context& context) const {
  context.recompute = config_.train.recompute;
  context.team = team_;
}

StepReport Trainer::step(const std::function<data::Batch()>& next, Recorder* recorder) {
  const TrainConfig& t = config_.train;
  const RecordedMessages messages(team_, recorder);
  StepReport report;
  report.lr = optim::learning_rate(config_.optim, steps_done_ + 1, t.steps);
  model_->parameters().clear_gradients();
  // Losses and gradients are means over all clips of all passes: this is the share of a pass here.
  const double share = static_cast<double>(own_clips()) / static_cast<double>(t.batch * t.accumulate);
  sparsity::Pairs pairs;  // of the last pass
  for (std::int64_t pass = 0; pass < t.accumulate; ++pass) {
    const data::Batch batch = next();
    const Draws draws{static_cast<std::uint64_t>(t.seed), steps_done_, pass * t.batch + first_clip()};
    // In the last pass gradients set off to the ranks that own them as soon as they are final.
    tape::Tape::Options options{.recorder = recorder};
    if (zero_ != nullptr && pass + 1 == t.accumulate) options.on_final = [&](tape::Parameter& p) { zero_->final(p); };
    tape::Tape tape(threads_, pool_, std::move(options));
    model::Context context(
        tape, {.kind = sparsity::Pass::Kind::kTraining, .step = steps_done_, .accumulated = pass, .clips = clips_},
        sparsity_.get());
    use(context);

    const tape::Tensor loss = objective_.loss(context, *model_, batch, own_clips(), draws, true);  // forward
    report.loss += static_cast<double>(loss.item()) * share;
    tape.backward(loss, static_cast<float>(share));  // adds to the gradients
    if (context.sparsity) pairs = context.sparsity->pairs();
  }
  model_->parameters().zero_untouched_gradients();

  reduce(report.loss, pairs);
  report.kept = pairs.kept_share();
  report.gradient_norm = gradient_norm(recorder);

  report.skipped = !std::isfinite(report.loss) || !std::isfinite(report.gradient_norm);
  if (!report.skipped) {
    run_recorded(recorder, {optimizer_->step_work(), -1, Phase::kOptimizer}, [&] {
      optimizer_->step(report.lr, report.gradient_norm, threads_);  // clips, and moves the averaged weights too
    });
    if (zero_ != nullptr) zero_->gather(model_->parameters().trained_values());
  }
  ++steps_done_;
  return report;
}

void Trainer::reduce(double& loss, sparsity::Pairs& pairs) {
  if (zero_ == nullptr) return;
  zero_->finish();
  team_->data().all_reduce({&loss, 1});  // the ranks of a sequence group have the same
  if (sparsity_ == nullptr) return;
  double sums[] = {pairs.kept, pairs.all};  // every rank has counted what it computes
  team_->world().all_reduce(sums);
  pairs = {sums[0], sums[1]};
}

double Trainer::gradient_norm(Recorder* recorder) {
  double squares = 0;
  run_recorded(recorder, {optimizer_->squares_work(), -1, Phase::kOptimizer},
               [&] { squares = optimizer_->gradient_squares(threads_); });
  if (zero_ != nullptr) team_->world().all_reduce({&squares, 1});
  return std::sqrt(squares);
}

std::unique_ptr<sparsity::Controller> make_controller(const RunConfig& config,
                                                      const sparsity::Controller::Options& options) {
  if (!config.sparsity.on()) return nullptr;
  return std::make_unique<sparsity::Controller>(config.sparsity, model_heads(config), options);
}

predict::ModelHeads model_heads(const RunConfig& c) { return {c.model.layers, c.model.heads, c.model.head_dim}; }

// Tiles do not reach from given frames to others.
lists::TokenOrder token_order(const RunConfig& c) {
  const std::int64_t given = c.diffusion.conditioning_frames / c.model.patch[0];
  return lists::tile_order(
      {c.video.frames / c.model.patch[0], c.video.height / c.model.patch[1], c.video.width / c.model.patch[2]},
      c.sparsity.tile(), given > 0 ? std::vector<std::int64_t>{given} : std::vector<std::int64_t>{});
}

sparsity::Controller::Options sparsity_options(const RunConfig& config, const StepNeed& need, Threads& threads) {
  sparsity::Controller::Options options;
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.lists_bytes = kListsShare * need.dense_bytes();
  options.break_even = sparsity::break_even_of(config.sparsity, cost::break_even_path(),
                                               need.tokens / (config.train.batch * config.train.accumulate),
                                               config.model.head_dim, threads);
  return options;
}

double Trainer::validate(data::Source& source, Attention attention) {
  const std::int64_t clips = source.size(data::Split::kValidation);
  double sums[2] = {};  // of losses, and their number
  const int group = team_ != nullptr ? team_->data().rank() : 0, groups = team_ != nullptr ? team_->data().size() : 1;
  for (std::int64_t first = group; first < clips; first += groups) {
    data::Clip clip;
    if (!source.read(data::Split::kValidation, first, clip)) continue;
    data::Batch batch;
    batch.values = std::move(clip.values);
    batch.text = std::move(clip.text);
    tape::Tape tape(threads_, pool_, {.gradients = false});
    model::Context context(tape, {.kind = sparsity::Pass::Kind::kValidation, .step = steps_done_},
                           attention == Attention::kAsTrained ? sparsity_.get() : nullptr);
    use(context);
    const Draws draws{0, kValidationStep, first};
    sums[0] += static_cast<double>(objective_.loss(context, *model_, batch, 1, draws, false).item());
    sums[1] += 1;
  }
  if (groups > 1) team_->data().all_reduce(sums);
  return sums[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[0] / sums[1];
}

void Trainer::with_average(const std::function<void()>& f) {
  if (!optimizer_->has_average()) return f();
  const auto swap = [&] {
    const std::span<float> values = model_->parameters().trained_values();
    float* average = optimizer_->average().data();
    for (const optim::Range& range : optimizer_->owned()) {
      average = std::swap_ranges(values.data() + range.begin, values.data() + range.end, average);
    }
    if (zero_ != nullptr) zero_->gather(values);
  };
  swap();
  try {
    f();
  } catch (...) {
    swap();
    throw;
  }
  swap();
}

}  // namespace reel::train
