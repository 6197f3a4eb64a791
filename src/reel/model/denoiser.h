// A video diffusion transformer: noisy latents, a timestep and a text go in, the prediction comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reel/model/config.h"
#include "reel/model/context.h"

namespace reel::model {

struct Input {
  Tensor latents;            // [batch, channels, frames, height, width]
  std::vector<float> times;  // [batch], on the model's own scale, 0 to 1000
  Tensor text;               // [batch, tokens, text_width]
  // What follows may be empty.
  std::vector<std::uint8_t> given_frames;  // [batch * frames / patch]: 1 for frames that are given clean (time 0)
  std::vector<std::uint8_t> text_mask;     // [batch * tokens]: 1 for tokens that count. stdit3 only
  std::vector<float> fps, height, width;   // [batch]; stdit3: of the video, in frames per second and pixels
};

// Frames of a given input in patches: where given_frames has its entries.
std::int64_t patch_frames(const ModelConfig& config, std::int64_t frames);

class Denoiser {
 public:
  virtual ~Denoiser() = default;
  // [batch, out channels, frames, height, width]
  virtual Tensor forward(Context& context, const Input& input) = 0;

  const ModelConfig& config() const { return config_; }
  tape::Parameters& parameters() { return parameters_; }
  const tape::Parameters& parameters() const { return parameters_; }
  // Number of calls of Context::attend in a pass.
  std::int64_t attentions() const;

 protected:
  explicit Denoiser(ModelConfig config) : config_(std::move(config)) {}
  ModelConfig config_;
  tape::Parameters parameters_;
};

// An Error where such a model cannot be cut like this: which plans would work.
void check_plan(const ModelConfig& config, const layout::Degrees& plan);

// A model of the family, with memory for its weights (zeros) and, if wanted, gradients.
std::unique_ptr<Denoiser> make_denoiser(const ModelConfig& config, tape::Parameters::With with);

}  // namespace reel::model
