// Gaussian diffusion in 1000 steps with learned variance, as Latte is trained (Ho et al. 2020; Nichol & Dhariwal 2021).
//
//   q(x_t | x_0)          = N(sqrt(alpha_bar) x_0, 1 - alpha_bar)
//   q(x_{t-1} | x_t, x_0) = N(from_x0 x_0 + from_xt x_t, posterior_variance)
//
// The model's output has 2 C channels: the first C predict the noise, the others place the log variance of
// p(x_{t-1} | x_t) between posterior_log_variance (-1) and log beta (1), linearly, not clamped.
// Step 0 is the least noisy one; the model is told the step's number in the full schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/diffusion/noise.h"

namespace reel::diffusion {

struct DdpmStep {
  std::int64_t timestep;  // what the model is told: 0 .. 999
  double beta, log_beta;
  double alpha_bar, alpha_bar_before;  // products of 1 - beta up to this step, and up to the one before (1 at first)
  double from_x0, from_xt;
  double posterior_variance;      // 0 at step 0
  double posterior_log_variance;  // that of step 1 at step 0, where the log would be -inf
};

using DdpmSchedule = std::vector<DdpmStep>;

DdpmSchedule ddpm_schedule();                    // 1000 steps, beta linear from 1e-4 to 0.02
DdpmSchedule ddpm_schedule(std::int64_t steps);  // `steps` of these, evenly spaced, first and last included

// Log variance of p(x_{t-1} | x_t) for the model's value v.
double learned_log_variance(const DdpmStep& step, double v);

// A step for each sample of a training batch, uniform.
std::vector<std::int64_t> draw_ddpm_steps(const DdpmSchedule& schedule, const Draws& draws, std::int64_t batch);

// x_0 and noise have the clip shape; steps are indices into the schedule, one a sample.
Noised ddpm_noise(const DdpmSchedule& schedule, const ClipShape& shape, std::span<const float> x0,
                  std::span<const float> noise, std::span<const std::int64_t> steps, std::int64_t conditioning_frames);

// Both terms are means over the elements that count. vb is the sample's term of the variational bound in bits per
// dimension; it enters the sum as it is (Latte's LossType.MSE), without the factor steps / 1000 of RESCALED_MSE.
struct DdpmLoss {
  double mse, vb;
  double total() const { return mse + vb; }
};

// The loss of an output of 2 C channels, and the gradient of total() with respect to it (overwritten). The bound
// teaches the variance only: the mean in it is a constant. Step 0 uses the likelihood of data in bins of 2 / 255
// between -1 and 1, for latents too, as published.
DdpmLoss ddpm_loss(const DdpmSchedule& schedule, const ClipShape& shape, std::span<const float> output,
                   std::span<const float> x0, const Noised& noised, std::span<const std::int64_t> steps,
                   std::span<float> gradient);

}  // namespace reel::diffusion
