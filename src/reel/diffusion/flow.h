// Rectified flow: straight lines between data and noise, and the velocity along them.
//
//   x_t = (1 - t) x_0 + t noise,   t in [0, 1]: 0 is data, 1 is noise. The model is told 1000 t.
//
// The sign of the velocity is a property of the model family; a checkpoint read with the wrong one gives noise.
// Sources: Liu et al. 2022 (rectified flow), Esser et al. 2024 (Stable Diffusion 3: logit-normal times, shift).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/diffusion/config.h"
#include "reel/diffusion/noise.h"

namespace reel::diffusion {

enum class Velocity {
  kNoiseMinusData,  // dx/dt: Wan, Stable Diffusion 3
  kDataMinusNoise,  // Open-Sora 1.2
};

constexpr float kModelTime = 1000;  // model time = kModelTime * t

// shift t / (1 + (shift - 1) t): 0 and 1 stay, times between move towards noise when shift > 1.
double shifted(double t, double shift);

// The steps + 1 times of a sampler, from 1 to 0: shifted(1 - i / steps).
std::vector<double> flow_times(std::int64_t steps, double shift);

// A time for each sample of a training batch, in (0, 1].
std::vector<float> draw_flow_times(const DiffusionConfig& config, const Draws& draws, std::int64_t batch);

// x_0 and noise have the clip shape, times one t a sample.
Noised flow_noise(const ClipShape& shape, std::span<const float> x0, std::span<const float> noise,
                  std::span<const float> times, std::int64_t conditioning_frames, Velocity velocity);

// Mean of (output - target)^2 over the frames that count, and its gradient with respect to the output (overwritten).
// The output may have more channels than the clip (Open-Sora's 2 C): the first ones are the velocity, the others get
// gradient 0.
double flow_loss(const ClipShape& shape, std::int64_t output_channels, std::span<const float> output,
                 const Noised& noised, std::span<float> gradient);

}  // namespace reel::diffusion
