// AdamW over all trained parameters of a model, with clipping by global norm, a running average, and schedules.
//
// State is flat, laid out as Parameters::trained_values(): a loop over one array. An optimizer may own only some ranges
// of it (one of many ranks): it updates those, and keeps state for those, one after another.
// Same numbers in, same bits out, for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/threads.h"
#include "reel/base/work.h"
#include "reel/files/settings.h"
#include "reel/tape/tensor.h"

namespace reel::optim {

struct OptimConfig {
  double lr = 1e-3;
  std::string schedule = "constant";
  std::int64_t warmup = 20;
  double final_lr = 0.1;  // share of lr at the end of a cosine
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip = 1;   // 0: off
  double ema = 0.0;  // decay; 0: off
};

void visit(Settings& settings, OptimConfig& config);

// The learning rate of step 1, 2, ..., steps: linear warm-up, then constant, cosine, or linear over the last 30 %.
double learning_rate(const OptimConfig& config, std::int64_t step, std::int64_t steps);

struct Range {  // of the flat arrays, in floats
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

class Optimizer {
 public:
  // Owns everything, or the ranges `owned`.
  Optimizer(const OptimConfig& config, tape::Parameters& parameters);
  Optimizer(const OptimConfig& config, tape::Parameters& parameters, std::vector<Range> owned);

  // Sum of the squares of the gradients it owns, and norm of all gradients where it owns all; not finite when one of
  // them is not.
  double gradient_squares(Threads& threads);
  double gradient_norm(Threads& threads);
  // One update; `norm` as gradient_norm gave it. Updates the average, too.
  void step(double lr, double norm, Threads& threads);

  // What the two do, for the record.
  work::Sweep squares_work() const;
  work::Sweep step_work() const;

  std::int64_t steps_done() const { return steps_done_; }
  void set_steps_done(std::int64_t steps) { steps_done_ = steps; }
  bool has_average() const { return config_.ema > 0; }
  const std::vector<Range>& owned() const { return owned_; }
  // State for checkpoints, laid out as the ranges it owns.
  std::span<float> first_moment() { return first_; }
  std::span<float> second_moment() { return second_; }
  std::span<float> average() { return average_; }
  void start_average();  // from the present weights

  // Memory of the state in bytes, without making it.
  static std::size_t state_bytes(const OptimConfig& config, std::size_t trained_floats);

 private:
  OptimConfig config_;
  tape::Parameters& parameters_;
  std::vector<Range> owned_;
  std::size_t floats_ = 0;  // that it owns
  Buffer<float> first_, second_, average_;
  std::int64_t steps_done_ = 0;
};

}  // namespace reel::optim
