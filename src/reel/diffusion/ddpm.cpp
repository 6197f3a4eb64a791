#include "reel/diffusion/ddpm.h"

#include <cmath>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::diffusion {

namespace {

constexpr std::int64_t kSteps = 1000;

// A schedule that visits only `timesteps` has the betas that lead from one alpha_bar to the next.
DdpmSchedule schedule_of(std::span<const double> alpha_bars, std::span<const std::int64_t> timesteps) {
  DdpmSchedule schedule;
  double before = 1;
  for (const std::int64_t timestep : timesteps) {
    DdpmStep step{.timestep = timestep};
    step.alpha_bar = alpha_bars[sized(timestep)];
    step.alpha_bar_before = before;
    step.beta = 1 - step.alpha_bar / before;
    step.log_beta = std::log(step.beta);
    step.from_x0 = step.beta * std::sqrt(before) / (1 - step.alpha_bar);
    step.from_xt = (1 - before) * std::sqrt(1 - step.beta) / (1 - step.alpha_bar);
    step.posterior_variance = step.beta * (1 - before) / (1 - step.alpha_bar);
    step.posterior_log_variance = std::log(step.posterior_variance);
    before = step.alpha_bar;
    schedule.push_back(step);
  }
  // A schedule of one step has no second; its variance is never used, beta keeps it finite.
  schedule[0].posterior_log_variance = schedule.size() > 1 ? schedule[1].posterior_log_variance : schedule[0].log_beta;
  return schedule;
}

}  // namespace

DdpmSchedule ddpm_schedule() { return ddpm_schedule(kSteps); }

DdpmSchedule ddpm_schedule(std::int64_t steps) {
  if (steps < 1 || steps > kSteps) {
    throw Error(fmt::format("cannot sample in {} steps: this model was trained with {}", steps, kSteps),
                fmt::format("use 1 to {} steps; 50 are usual for ddim, 250 for ddpm", kSteps));
  }
  std::vector<double> alpha_bars;
  double alpha_bar = 1;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    alpha_bar *= 1 - (1e-4 + (0.02 - 1e-4) * static_cast<double>(i) / (kSteps - 1));
    alpha_bars.push_back(alpha_bar);
  }
  // Rounded to the nearest step. Latte adds up a rounded stride instead; that differs by one step where the exact
  // value lies halfway, which happens for odd counts only. A single step starts at the noisy end.
  std::vector<std::int64_t> timesteps;
  if (steps == 1) timesteps.push_back(kSteps - 1);
  for (std::int64_t i = 0; i < steps && steps > 1; ++i) {
    timesteps.push_back((2 * i * (kSteps - 1) + steps - 1) / (2 * (steps - 1)));
  }
  return schedule_of(alpha_bars, timesteps);
}

double learned_log_variance(const DdpmStep& step, double v) {
  const double share = (v + 1) / 2;
  return share * step.log_beta + (1 - share) * step.posterior_log_variance;
}

std::vector<std::int64_t> draw_ddpm_steps(const DdpmSchedule& schedule, const Draws& draws, std::int64_t batch) {
  return draw_below(Purpose::kTrainingTime, draws, batch, static_cast<std::int64_t>(schedule.size()));
}

Noised ddpm_noise(const DdpmSchedule& schedule, const ClipShape& shape, std::span<const float> x0,
                  std::span<const float> noise, std::span<const std::int64_t> steps, std::int64_t conditioning_frames) {
  std::vector<Mix> mixes;
  for (const std::int64_t index : steps) {
    const DdpmStep& step = schedule.at(sized(index));
    mixes.push_back({static_cast<float>(step.timestep), static_cast<float>(std::sqrt(step.alpha_bar)),
                     static_cast<float>(std::sqrt(1 - step.alpha_bar)), 0, 1});
  }
  return mix(shape, x0, noise, mixes, conditioning_frames);
}

}  // namespace reel::diffusion
