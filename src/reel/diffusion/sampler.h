// From noise to clips.
//
//   sample_flow   Euler steps along the velocity, over shifted times (flow.h)
//   restore_flow  the same from a clip in which some of the data is left (noise_clip), over even times
//   sample_ddim   Song et al. 2020 over some of the 1000 steps: eta 0 adds no noise, eta 1 as much as ddpm
//   sample_ddpm   ancestral sampling over some of the 1000 steps, with the learned variance
//
// `clip` has the clip shape. Its first `conditioning_frames` frames hold the given frames, which the model sees clean
// at time 0 and which come out as they went in; the rest is overwritten (restored, by restore_flow). The same seed and
// sample number give the same clip, however clips are batched.
//
// Guidance g takes two calls a step, without + g (with - without) on the channels that predict velocity or noise; the
// learned variance is that of the call with text. Guidance 1 is one call with text, guidance 0 one without.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "reel/diffusion/flow.h"
#include "reel/diffusion/noise.h"

namespace reel::diffusion {

// The model: x has the clip shape, frame_times is [batch][frames] in 0 .. 1000, out the clip shape but with the
// channels of the model's output. A NaN or infinity in out ends the sampling with an Error that names the step.
using Denoise = std::function<void(std::span<const float> x, std::span<const float> frame_times, bool with_text,
                                   std::span<float> out)>;

struct SamplerOptions {
  std::int64_t steps = 30;
  double guidance = 1;
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;  // number of the first clip of this batch
  std::int64_t conditioning_frames = 0;
  std::function<void(std::int64_t step, std::int64_t steps)> progress;  // after each step: 1, 2, ..., steps
};

// output_channels: C or more, of which the first C are used.
void sample_flow(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, Velocity velocity,
                 double shift, const SamplerOptions& options, std::span<float> clip);

// Mixes noise into all frames but the given ones, up to flow time `level` in (0, 1]: at 1 nothing else is left, which
// is where sample_flow begins.
void noise_clip(const ClipShape& shape, double level, const SamplerOptions& options, std::span<float> clip);
// From flow time `level`, at which `clip` is, to 0. One step is the mean of what the clip may be, as far as the model
// knows, and has the least squared error; more steps make up their mind, which looks sharper and may be wrong.
void restore_flow(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, Velocity velocity,
                  double level, const SamplerOptions& options, std::span<float> clip);

void sample_ddim(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, double eta,
                 const SamplerOptions& options, std::span<float> clip);

// The model's output has 2 C channels.
void sample_ddpm(const ClipShape& shape, const Denoise& denoise, const SamplerOptions& options, std::span<float> clip);

}  // namespace reel::diffusion
