// From a batch of clips to the loss of the model on the tape: noise, timesteps, dropped texts, conditioning frames.
#pragma once

#include <memory>

#include "reel/data/loader.h"
#include "reel/diffusion/ddpm.h"
#include "reel/diffusion/flow.h"
#include "reel/model/denoiser.h"
#include "reel/train/config.h"

namespace reel::train {

// The kind and the sign of the velocity are properties of the model family.
diffusion::Kind kind_of(const RunConfig& config);
diffusion::Velocity velocity_of(const model::ModelConfig& config);

diffusion::ClipShape clip_shape(const RunConfig& config, std::int64_t batch);

// What stands for no text, [text_tokens, text_width]: zeros, or the vectors a family has for it.
Buffer<float> null_text(const model::Denoiser& model, const RunConfig& config);

// The input of the model without latents and text: times, given frames, and what stdit3 is told about the video.
model::Input model_input(const RunConfig& config, std::span<const float> frame_times, std::int64_t batch);

class Objective {
 public:
  explicit Objective(const RunConfig& config);

  // The loss of `batch` on the tape of `context`; `draws` say which random numbers belong to it. A ghost's batch may be
  // empty. Texts are dropped (for classifier-free guidance) only where `drop_text`.
  tape::Tensor loss(model::Context& context, model::Denoiser& model, const data::Batch& batch, std::int64_t clips,
                    const diffusion::Draws& draws, bool drop_text) const;

 private:
  struct Example {
    diffusion::Noised noised;
    std::vector<std::int64_t> steps;  // ddpm
    Buffer<float> noise;
  };
  Example noise(const data::Batch& batch, const diffusion::ClipShape& shape, const diffusion::Draws& draws) const;
  Buffer<float> text(const model::Denoiser& model, const data::Batch& batch, std::int64_t clips,
                     const diffusion::Draws& draws, bool drop_text) const;

  const RunConfig& config_;
  diffusion::Kind kind_;
  diffusion::DdpmSchedule schedule_;
};

}  // namespace reel::train
