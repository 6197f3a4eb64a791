#include "train/trainer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "cost/machine.h"
#include "model/folder.h"
#include "model/init.h"

namespace reel::train {

using diffusion::Draws;

Trainer::Trainer(const RunConfig& config, Threads& threads, const sparsity::Controller::Options& sparsity)
    : config_(config),
      threads_(threads),
      model_(model::make_denoiser(config.model, tape::Parameters::With::kGradients)),
      sparsity_(make_controller(config, sparsity)),
      objective_(config_) {
  if (config_.train.start_from.empty()) {
    model::initialise(*model_);
  } else {
    model::load_weights(*model_, config_.train.start_from);
  }
  optimizer_ = std::make_unique<optim::Optimizer>(config_.optim, model_->parameters());
}

StepReport Trainer::step(const std::function<data::Batch()>& next, Recorder* recorder) {
  const TrainConfig& t = config_.train;
  StepReport report;
  report.lr = optim::learning_rate(config_.optim, steps_done_ + 1, t.steps);
  model_->parameters().clear_gradients();
  for (std::int64_t pass = 0; pass < t.accumulate; ++pass) {
    const data::Batch batch = next();
    tape::Tape tape(threads_, pool_, {.recorder = recorder});
    model::Context context(tape);
    context.recompute = t.recompute;
    context.sparsity = sparsity_.get();
    if (sparsity_ != nullptr) sparsity_->begin(steps_done_, true);
    const Draws draws{static_cast<std::uint64_t>(t.seed), steps_done_, pass * t.batch};
    const tape::Tensor loss = objective_.loss(context, *model_, batch, t.batch, draws, true);
    report.loss += static_cast<double>(loss.item()) / static_cast<double>(t.accumulate);
    tape.backward(loss, 1.0f / static_cast<float>(t.accumulate));
  }
  model_->parameters().zero_untouched_gradients();
  const double start = recorder != nullptr ? recorder->now() : 0;
  report.gradient_norm = optimizer_->gradient_norm(threads_);
  report.skipped = !std::isfinite(report.loss) || !std::isfinite(report.gradient_norm);
  if (!report.skipped) optimizer_->step(report.lr, report.gradient_norm, threads_);
  if (recorder != nullptr) {
    recorder->record({.name = "optimizer", .phase = Phase::kOptimizer}, start, recorder->now() - start);
  }
  ++steps_done_;
  return report;
}

std::unique_ptr<sparsity::Controller> make_controller(const RunConfig& config,
                                                      const sparsity::Controller::Options& options) {
  if (!config.sparsity.on()) return nullptr;
  const sparsity::Shape shape{config.model.layers, config.model.heads, config.model.head_dim};
  return std::make_unique<sparsity::Controller>(config.sparsity, shape, options);
}

sparsity::Controller::Options sparsity_options(const RunConfig& config, const StepNeed& need, Threads& threads) {
  sparsity::Controller::Options options;
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.lists_bytes = 0.05 * need.bytes();
  const sparsity::SparsityConfig& s = config.sparsity;
  if (s.mode == "dynamic" && s.break_even == 0 && s.layer_keys.empty()) {
    std::string cpu = cost::describe_this_machine().cpu;
    for (char& c : cpu) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
    const auto folder = std::filesystem::path(cost::machine_path()).parent_path();
    options.break_even = sparsity::break_even_for((folder / ("break-even-" + cpu + ".csv")).string(),
                                                  need.tokens / (config.train.batch * config.train.accumulate),
                                                  config.model.head_dim, threads);
  }
  return options;
}

double Trainer::validate(data::Source& source, Attention attention) {
  const std::int64_t clips = source.size(data::Split::kValidation);
  double sum = 0;
  std::int64_t counted = 0;
  for (std::int64_t first = 0; first < clips; ++first) {
    data::Clip clip;
    if (!source.read(data::Split::kValidation, first, clip)) continue;
    data::Batch batch;
    batch.values = std::move(clip.values);
    batch.text = std::move(clip.text);
    tape::Tape tape(threads_, pool_, {.gradients = false});
    model::Context context(tape);
    if (sparsity_ != nullptr && attention == Attention::kAsTrained) {
      context.sparsity = sparsity_.get();
      sparsity_->begin(steps_done_, false);
    }
    const Draws draws{0, kValidationStep, first};
    sum += static_cast<double>(objective_.loss(context, *model_, batch, 1, draws, false).item());
    ++counted;
  }
  return counted == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(counted);
}

void Trainer::with_average(const std::function<void()>& f) {
  if (!optimizer_->has_average()) return f();
  const auto swap = [&] {
    const std::span<float> values = model_->parameters().trained_values();
    std::swap_ranges(values.begin(), values.end(), optimizer_->average().begin());
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
