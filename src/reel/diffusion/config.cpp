#include "reel/diffusion/config.h"

namespace reel::diffusion {

void visit(Settings& settings, DiffusionConfig& config) {
  settings.section("diffusion", "noise, times and losses");
  settings.choice("diffusion.kind", config.kind, {"auto", "flow", "ddpm"},
                  "rectified flow, or 1000 steps with learned variance; auto: as the model family was published");
  settings.choice("diffusion.timesteps", config.timesteps, {"uniform", "logit-normal"},
                  "how flow training draws times");
  settings.number("diffusion.logit_mean", config.logit_mean, -10, 10, "logit-normal times: mean of the logit");
  settings.number("diffusion.logit_std", config.logit_std, 0, 10, "logit-normal times: its standard deviation");
  settings.number(
      "diffusion.shift", config.shift, 0.01, 100,
      "flow: t becomes s t / (1 + (s - 1) t); above 1 for large clips, which hide less under the same noise");
  settings.integer("diffusion.conditioning_frames", config.conditioning_frames, 0, Settings::kMany,
                   "first frames that are given clean, without loss");
  settings.number("diffusion.text_dropout", config.text_dropout, 0, 1,
                  "share of samples trained without their text, for guidance");
}

Kind kind_of(const DiffusionConfig& config, Kind family) {
  if (config.kind == "flow") return Kind::kFlow;
  if (config.kind == "ddpm") return Kind::kDdpm;
  return family;
}

}  // namespace reel::diffusion
