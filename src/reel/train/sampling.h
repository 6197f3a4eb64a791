// Clips from a model: the sampler of its family around its forward pass.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "reel/sparsity/controller.h"
#include "reel/train/objective.h"

namespace reel::train {

struct SampleOptions {
  std::int64_t steps = 30;
  double guidance = 3;
  std::uint64_t seed = 0;
  double level = 1;                          // flow: below 1 the clips come noised to this time, and are restored
  double eta = 0;                            // ddpm: noise added by DDIM
  bool ancestral = false;                    // ddpm: with the learned variance instead of DDIM
  sparsity::Controller* sparsity = nullptr;  // null: all keys
  parallel::Team* team = nullptr;            // null: one rank; its sequence group samples together
  std::int64_t first_sample = 0;             // number of the first clip: the noise of a clip follows from it
  std::int64_t trained_steps = 0;            // of the weights: a control may begin at a step
  std::function<void(std::int64_t step, std::int64_t steps)> progress;
};

// `texts` is [clips][text_tokens][text_width]. `clips` is [clips][channels][frames][height][width]: its conditioning
// frames go in, everything comes out.
void sample_clips(const RunConfig& config, model::Denoiser& model, tape::Pool& pool, Threads& threads,
                  std::span<const float> texts, const SampleOptions& options, std::span<float> clips);

}  // namespace reel::train
