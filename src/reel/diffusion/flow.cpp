#include "reel/diffusion/flow.h"

#include <algorithm>
#include <cmath>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::diffusion {

double shifted(double t, double shift) { return shift * t / (1 + (shift - 1) * t); }

std::vector<double> flow_times(std::int64_t steps, double shift) {
  if (steps < 1) throw Error(fmt::format("cannot sample in {} steps", steps), "use 1 step or more; 30 are usual");
  std::vector<double> times;
  for (std::int64_t i = 0; i <= steps; ++i) {
    times.push_back(shifted(static_cast<double>(steps - i) / static_cast<double>(steps), shift));
  }
  return times;
}

std::vector<float> draw_flow_times(const DiffusionConfig& config, const Draws& draws, std::int64_t batch) {
  const bool uniform = config.timesteps == "uniform";
  std::vector<float> times =
      uniform ? draw_uniform(Purpose::kTrainingTime, draws, batch) : draw_normal(Purpose::kTrainingTime, draws, batch);
  for (float& time : times) {
    // 1 - u: time 0, which teaches nothing, is left out and time 1, where sampling starts, is in.
    const double t = uniform ? 1.0 - time : 1 / (1 + std::exp(-(config.logit_mean + config.logit_std * time)));
    time = static_cast<float>(shifted(t, config.shift));
  }
  return times;
}

Noised flow_noise(const ClipShape& shape, std::span<const float> x0, std::span<const float> noise,
                  std::span<const float> times, std::int64_t conditioning_frames, Velocity velocity) {
  const float sign = velocity == Velocity::kNoiseMinusData ? 1.0f : -1.0f;
  std::vector<Mix> mixes;
  for (const float t : times) mixes.push_back({kModelTime * t, 1 - t, t, -sign, sign});
  return mix(shape, x0, noise, mixes, conditioning_frames);
}

double flow_loss(const ClipShape& shape, std::int64_t output_channels, std::span<const float> output,
                 const Noised& noised, std::span<float> gradient) {
  const ClipShape out = shape.with_channels(output_channels);
  REEL_CHECK(output_channels >= shape.channels && output.size() == out.size() && gradient.size() == out.size());
  REEL_CHECK(noised.target.size() == shape.size());
  const auto count = static_cast<double>(counted(shape, noised));
  REEL_CHECK(count > 0);
  const float scale = static_cast<float>(2 / count);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  double sum = 0;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      for (std::int64_t f = 0; f < shape.frames; ++f) {
        if (noised.frame_mask[sized(b * shape.frames + f)] == 0) continue;
        const float* y = &output[out.at(b, c, f)];
        const float* target = &noised.target[shape.at(b, c, f)];
        float* dy = &gradient[out.at(b, c, f)];
        for (std::size_t i = 0; i < shape.plane(); ++i) {
          const float difference = y[i] - target[i];
          sum += static_cast<double>(difference) * difference;
          dy[i] = scale * difference;
        }
      }
    }
  }
  return sum / count;
}

}  // namespace reel::diffusion
