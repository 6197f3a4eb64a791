// A model in training: one optimizer step after another, validation, and what a step needs.
//
// On many ranks all of them call the same functions in the same order. A batch is the same clips with the same noise
// however many ranks there are: sequence groups take some of its clips each, and the ranks of a group share those.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "reel/base/record.h"
#include "reel/optim/optimizer.h"
#include "reel/parallel/zero.h"
#include "reel/sparsity/controller.h"
#include "reel/train/objective.h"

namespace reel::train {

struct StepReport {
  double loss = 0;
  double gradient_norm = 0;
  double lr = 0;
  double kept = 1;       // of the query-key pairs of self-attention, in the last of the accumulated passes
  bool skipped = false;  // loss or gradients were not finite: nothing was updated
};

// The step whose noise validation draws: far from every training step, so that it shares none with training.
constexpr std::int64_t kValidationStep = std::int64_t{1} << 40;

class Trainer {
 public:
  // Initial weights as the configuration says: drawn, or from train.start_from.
  // `team` (null: one rank) outlives it.
  Trainer(const RunConfig& config, Threads& threads, const sparsity::Controller::Options& sparsity = {},
          parallel::Team* team = nullptr);

  // Of each batch of train.batch clips this rank has [first_clip(), first_clip() + own_clips()).
  std::int64_t first_clip() const { return clips_.begin(group()); }
  std::int64_t own_clips() const { return clips_.size(group()); }

  // One step; `next` gives the clips of this rank, train.accumulate times.
  StepReport step(const std::function<data::Batch()>& next, Recorder* recorder = nullptr);

  // Mean loss over the held-out clips with noise and timesteps that are always the same. NaN where there are none.
  // Attention as in training, or over all keys.
  enum class Attention { kAsTrained, kDense };
  double validate(data::Source& source, Attention attention = Attention::kAsTrained);

  std::int64_t steps_done() const { return steps_done_; }  // skipped ones too
  void set_steps_done(std::int64_t steps) { steps_done_ = steps; }

  const RunConfig& config() const { return config_; }
  model::Denoiser& model() { return *model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  sparsity::Controller* sparsity() { return sparsity_.get(); }  // null: off
  Threads& threads() { return threads_; }
  const tape::Pool& pool() const { return pool_; }

  parallel::Team* team() { return team_; }                                      // null: one rank
  parallel::Zero* zero() { return zero_.get(); }                                // null: one rank
  bool root() const { return team_ == nullptr || team_->world().rank() == 0; }  // writes files and talks

  // Runs f with the averaged weights in place of the present ones, where an average is kept.
  void with_average(const std::function<void()>& f);

 private:
  void use(model::Context& context) const;
  // Sums the gradients, the loss and the counts of pairs over the ranks; each gradient arrives at the rank that owns
  // it.
  void reduce(double& loss, sparsity::Pairs& pairs);
  // The norm of all gradients together.
  double gradient_norm(Recorder* recorder);
  int group() const { return team_ != nullptr ? team_->data().rank() : 0; }  // data-parallel

  RunConfig config_;
  Threads& threads_;
  tape::Pool pool_;
  std::unique_ptr<model::Denoiser> model_;
  parallel::Team* team_;
  layout::Cut clips_;  // of a pass, over data-parallel groups
  std::unique_ptr<parallel::Zero> zero_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<sparsity::Controller> sparsity_;
  Objective objective_;
  std::int64_t steps_done_ = 0;
};

// What one step takes, known without running it: the same code, run by ghosts.
struct StepNeed {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;  // bytes
  double lists = 0;                 // at most: lists of keys, and the averages of sparsity.mode = static
  double flops = 0;                 // of a step, the re-run of recompute not counted
  double self_attention_flops = 0;  // with all pairs of queries and keys
  std::int64_t tokens = 0;          // of a step
  double dense_bytes() const { return weights + gradients + optimizer + activations; }
  double bytes() const { return dense_bytes() + lists; }
  double self_attention_share() const { return self_attention_flops / flops; }
  // The flops of a step in which self-attention looks at this share of the pairs; the others are not computed.
  double flops_with(double kept) const { return flops - (1 - kept) * self_attention_flops; }
};
// What rank `rank` of `ranks` needs. `recorder` gets the work and the messages of one of the accumulated passes.
StepNeed step_need(const RunConfig& config, int rank = 0, int ranks = 1, Recorder* recorder = nullptr);

// Null where sparsity is off.
std::unique_ptr<sparsity::Controller> make_controller(const RunConfig& config,
                                                      const sparsity::Controller::Options& options);
// What a controller is told about this machine and this run: break-even (looked up, or measured for some seconds, where
// the decision needs it), and memory for lists, kListsShare of what the step takes without them.
constexpr double kListsShare = 0.05;
sparsity::Controller::Options sparsity_options(const RunConfig& config, const StepNeed& need, Threads& threads);

predict::ModelHeads model_heads(const RunConfig& config);

// The tokens of a clip in the order of tiles, as the model has them where attention is sparse.
lists::TokenOrder token_order(const RunConfig& config);

// Bytes of memory that can still be had, the limit of the container included; 0 where the system does not say. `root`
// stands for / in tests.
double available_memory(const std::string& root = "");

// "memory: 1.2 GB = weights 0.3 GB + ...; 8.1 GB available", of one of `ranks`. The last part is left out where
// `available` is 0, which means unknown.
std::string memory_line(const StepNeed& need, double available, int ranks = 1);
// Throws an Error where that cannot fit, whose hint says what would help and by how much.
void check_memory(const RunConfig& config, const StepNeed& need, double available, int ranks = 1);

}  // namespace reel::train
