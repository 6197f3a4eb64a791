// What a run file says about noise and losses: the keys under `diffusion.`.
#pragma once

#include <cstdint>
#include <string>

#include "reel/files/settings.h"

namespace reel::diffusion {

// Rectified flow (flow.h) or Gaussian diffusion in 1000 steps with learned variance (ddpm.h).
enum class Kind { kFlow, kDdpm };

struct DiffusionConfig {
  std::string kind = "auto";               // auto: what the model family was published with
  std::string timesteps = "logit-normal";  // flow only; ddpm always draws its 1000 steps uniformly
  double logit_mean = 0;                   // mean 0, deviation 1: Stable Diffusion 3 and Open-Sora 1.2
  double logit_std = 1;
  double shift = 1;  // flow only: larger moves times towards noise, for clips of more pixels
  std::int64_t conditioning_frames = 0;
  double text_dropout = 0.1;
};

void visit(Settings& settings, DiffusionConfig& config);

// config.kind, or the kind of the model family where that is "auto".
Kind kind_of(const DiffusionConfig& config, Kind family);

}  // namespace reel::diffusion
