#include "reel/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reel/kernels/adamw.h"
#include "reel/kernels/elementwise.h"

namespace reel::optim {

void visit(Settings& s, OptimConfig& c) {
  s.number("train.lr", c.lr, 0, 10, "learning rate after the warm-up");
  s.choice("train.schedule", c.schedule, {"constant", "cosine", "linear"},
           "after the warm-up: constant, cosine to final_lr, or linear to final_lr over the last 30 %");
  s.integer("train.warmup", c.warmup, 0, Settings::kMany, "steps over which the learning rate rises linearly");
  s.number("train.final_lr", c.final_lr, 0, 1, "share of lr at the end of a cosine or linear schedule");
  s.number("train.beta1", c.beta1, 0, 0.999999, "AdamW: decay of the mean of gradients");
  s.number("train.beta2", c.beta2, 0, 0.999999, "AdamW: decay of the mean of their squares");
  s.number("train.eps", c.eps, 0, 1, "AdamW: added to the root of the latter");
  s.number("train.weight_decay", c.weight_decay, 0, 10, "AdamW: decay of the weights");
  s.number("train.clip", c.clip, 0, Settings::kLarge, "largest norm of all gradients together; 0: no clipping");
  s.number("train.ema", c.ema, 0, 0.999999, "decay of a running average of the weights, used for samples; 0: none");
}

double learning_rate(const OptimConfig& c, std::int64_t step, std::int64_t steps) {
  if (step <= c.warmup) return c.lr * static_cast<double>(step) / static_cast<double>(c.warmup);
  const double after = static_cast<double>(step - c.warmup);
  const double whole = static_cast<double>(std::max<std::int64_t>(steps - c.warmup, 1));
  const double progress = std::min(after / whole, 1.0);
  if (c.schedule == "cosine") {
    return c.lr * (c.final_lr + (1 - c.final_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
  }
  if (c.schedule == "linear" && progress > 0.7) return c.lr * (1 - (1 - c.final_lr) * (progress - 0.7) / 0.3);
  return c.lr;
}

Optimizer::Optimizer(const OptimConfig& config, tape::Parameters& parameters)
    : Optimizer(config, parameters, std::vector<Range>{{0, parameters.trained_floats()}}) {}

Optimizer::Optimizer(const OptimConfig& config, tape::Parameters& parameters, std::vector<Range> owned)
    : config_(config), parameters_(parameters), owned_(std::move(owned)) {
  for (const Range& range : owned_) floats_ += range.size();
  first_ = Buffer<float>::zeros(floats_);
  second_ = Buffer<float>::zeros(floats_);
  if (has_average()) {
    average_ = Buffer<float>(floats_);
    start_average();
  }
}

void Optimizer::start_average() {
  const std::span<const float> values = parameters_.trained_values();
  float* at = average_.data();
  for (const Range& range : owned_) at = std::copy_n(values.data() + range.begin, range.size(), at);
}

double Optimizer::gradient_squares(Threads& threads) {
  double sum = 0;
  for (const Range& range : owned_) {
    sum += kernels::sum_squares(parameters_.gradients().subspan(range.begin, range.size()), threads);
  }
  return sum;
}

double Optimizer::gradient_norm(Threads& threads) { return std::sqrt(gradient_squares(threads)); }

void Optimizer::step(double lr, double norm, Threads& threads) {
  kernels::AdamW adamw{.lr = lr,
                       .beta1 = config_.beta1,
                       .beta2 = config_.beta2,
                       .eps = config_.eps,
                       .weight_decay = config_.weight_decay,
                       .step = ++steps_done_};
  if (config_.clip > 0 && norm > config_.clip) adamw.grad_scale = config_.clip / norm;
  // Early on the average would be mostly the random start: let it catch up (decay grows with the steps).
  const double n = static_cast<double>(steps_done_), decay = std::min(config_.ema, (1 + n) / (10 + n));
  std::size_t at = 0;
  for (const Range& range : owned_) {
    const std::span<float> values = parameters_.trained_values().subspan(range.begin, range.size());
    const auto state = [&](Buffer<float>& all) { return std::span<float>(all).subspan(at, range.size()); };
    kernels::adamw_step(adamw, values, parameters_.gradients().subspan(range.begin, range.size()), state(first_),
                        state(second_), threads);
    if (has_average()) kernels::ema_step(decay, values, state(average_), threads);
    at += range.size();
  }
}

work::Sweep Optimizer::squares_work() const { return {"optimizer", static_cast<std::int64_t>(floats_), 2, 1}; }

// AdamW reads weight, gradient and both moments and writes all but the gradient; the average reads the weight once
// more.
work::Sweep Optimizer::step_work() const {
  const int averages = has_average() ? 1 : 0;
  return {"optimizer", static_cast<std::int64_t>(floats_), 16 + 3 * averages, 7 + 3 * averages};
}

std::size_t Optimizer::state_bytes(const OptimConfig& config, std::size_t trained_floats) {
  return trained_floats * sizeof(float) * (config.ema > 0 ? 3 : 2);
}

}  // namespace reel::optim
