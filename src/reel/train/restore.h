// Held-out clips that are noised and restored: what models make of the same noise, to look at and as a number.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/train/trainer.h"

namespace reel::train {

struct RestoredClip {
  std::int64_t number = 0;  // of the held-out clip
  data::Clip truth;
  Buffer<float> noised, restored;  // given frames as they are
  double psnr_noised = 0, psnr = 0;
};

// The flow time to which clips are noised: 84 % of the training examples have less noise, so it is the noisy end of
// what the model has learnt.
double restore_level(const diffusion::DiffusionConfig& config);

// Peak signal-to-noise ratio of pixels from -1 to 1, in dB: 10 log10(2^2 / mean squared difference), over the frames
// that are not given.
double psnr(const diffusion::ClipShape& shape, std::int64_t given, std::span<const float> a, std::span<const float> b);

// The first `count` held-out clips, fewer where there are fewer; those that cannot be read are left out. In one step,
// with attention as in training. Noise follows from the number of the clip alone. Rectified flow, one rank.
std::vector<RestoredClip> restore_held_out(Trainer& trainer, data::Source& source, double level, std::int64_t count);

}  // namespace reel::train
