#include "reel/diffusion/sampler.h"

#include <algorithm>
#include <cmath>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/diffusion/ddpm.h"

namespace reel::diffusion {

namespace {

// What the samplers share: guided calls of the model, and a walk over the elements that change.
class Walk {
 public:
  Walk(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, const SamplerOptions& options,
       std::span<float> clip)
      : shape_(shape),
        out_shape_(shape.with_channels(output_channels)),
        denoise_(denoise),
        options_(options),
        clip_(clip),
        out_(out_shape_.size()),
        noise_(Buffer<float>::zeros(shape.size())) {
    REEL_CHECK(clip.size() == shape.size() && output_channels >= shape.channels);
    frame_times(shape, 0, options.conditioning_frames);  // too many given frames: an Error before any work
    if (options.guidance != 0 && options.guidance != 1) without_ = Buffer<float>(out_shape_.size());
  }

  void start() { noise_clip(shape_, 1, options_, clip_); }

  // Step `step` (from 0): the model's output at `time`, guided.
  void predict(std::int64_t step, float time) {
    const std::vector<float> times = frame_times(shape_, time, options_.conditioning_frames);
    const float g = static_cast<float>(options_.guidance);
    call(step, times, g != 0, out_);
    if (without_.size() == 0) return;
    call(step, times, false, without_);
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      const std::size_t begin = out_shape_.at(b, 0, 0);
      for (std::size_t i = begin; i < begin + shape_.sample(); ++i) out_[i] = without_[i] + g * (out_[i] - without_[i]);
    }
  }

  void draw_noise(std::int64_t step) {
    fill_noise(Purpose::kSamplingStep, {options_.seed, step, options_.first_sample}, shape_, noise_);
  }

  // x = next(x, prediction, variance value, noise) for every element outside the conditioning frames. The variance
  // value is that of the second C channels where there are any, else it repeats the prediction.
  template <class Next>
  void change(const Next& next) {
    const std::int64_t second = out_shape_.channels >= 2 * shape_.channels ? shape_.channels : 0;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t c = 0; c < shape_.channels; ++c) {
        const std::size_t at = shape_.at(b, c, options_.conditioning_frames);
        const std::size_t count = shape_.at(b, c, shape_.frames) - at;
        float* x = clip_.data() + at;
        const float* noise = noise_.data() + at;
        const float* prediction = out_.data() + out_shape_.at(b, c, options_.conditioning_frames);
        const float* v = out_.data() + out_shape_.at(b, c + second, options_.conditioning_frames);
        for (std::size_t i = 0; i < count; ++i) x[i] = next(x[i], prediction[i], v[i], noise[i]);
      }
    }
  }

  void done(std::int64_t step) const {
    if (options_.progress) options_.progress(step + 1, options_.steps);
  }

 private:
  void call(std::int64_t step, std::span<const float> times, bool with_text, std::span<float> out) {
    denoise_(clip_, times, with_text, out);
    if (std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); })) return;
    throw Error(fmt::format("step {} of {}: the model's output {} text is not finite (model time {:g})", step + 1,
                            options_.steps, with_text ? "with" : "without", times.back()),
                "the weights may have diverged: try an earlier checkpoint, or a lower learning rate");
  }

  ClipShape shape_, out_shape_;
  const Denoise& denoise_;
  const SamplerOptions& options_;
  std::span<float> clip_;
  Buffer<float> out_, without_, noise_;
};

// Along the velocity through these times.
void euler(Walk& walk, const std::vector<double>& times, Velocity velocity) {
  const double sign = velocity == Velocity::kNoiseMinusData ? 1 : -1;
  for (std::size_t step = 0; step + 1 < times.size(); ++step) {
    walk.predict(static_cast<std::int64_t>(step), static_cast<float>(kModelTime * times[step]));
    const float dt = static_cast<float>(sign * (times[step + 1] - times[step]));
    walk.change([=](float x, float v, float, float) { return x + dt * v; });
    walk.done(static_cast<std::int64_t>(step));
  }
}

}  // namespace

void noise_clip(const ClipShape& shape, double level, const SamplerOptions& options, std::span<float> clip) {
  REEL_CHECK(clip.size() == shape.size() && level > 0 && level <= 1);
  Buffer<float> noise(shape.size());
  fill_noise(Purpose::kSamplingStart, {options.seed, 0, options.first_sample}, shape, noise);
  const float of_noise = static_cast<float>(level), of_data = 1 - of_noise;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const std::size_t end = shape.at(b, c, shape.frames);
      for (std::size_t i = shape.at(b, c, options.conditioning_frames); i < end; ++i) {
        clip[i] = level == 1 ? noise[i] : of_data * clip[i] + of_noise * noise[i];  // at 1 anything may be in it
      }
    }
  }
}

void sample_flow(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, Velocity velocity,
                 double shift, const SamplerOptions& options, std::span<float> clip) {
  const std::vector<double> times = flow_times(options.steps, shift);
  Walk walk(shape, output_channels, denoise, options, clip);
  walk.start();
  euler(walk, times, velocity);
}

void restore_flow(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, Velocity velocity,
                  double level, const SamplerOptions& options, std::span<float> clip) {
  std::vector<double> times = flow_times(options.steps, 1);
  for (double& time : times) time *= level;
  Walk walk(shape, output_channels, denoise, options, clip);
  euler(walk, times, velocity);
}

void sample_ddim(const ClipShape& shape, std::int64_t output_channels, const Denoise& denoise, double eta,
                 const SamplerOptions& options, std::span<float> clip) {
  const DdpmSchedule schedule = ddpm_schedule(options.steps);
  Walk walk(shape, output_channels, denoise, options, clip);
  walk.start();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const DdpmStep& s = schedule[sized(options.steps - 1 - step)];
    walk.predict(step, static_cast<float>(s.timestep));
    // sqrt(before) x_0 + direction noise with x_0 = (x - sqrt(1 - alpha_bar) noise) / sqrt(alpha_bar), multiplied out
    // in double: at the noisy end x_0 is the difference of numbers 157 times as large as the result.
    const double deviation = eta * std::sqrt(s.posterior_variance);
    const double direction = std::sqrt(std::max(0.0, 1 - s.alpha_bar_before - deviation * deviation));
    const double data = std::sqrt(s.alpha_bar_before / s.alpha_bar);
    const float from_x = static_cast<float>(data);
    const float from_noise = static_cast<float>(direction - data * std::sqrt(1 - s.alpha_bar));
    const float fresh = static_cast<float>(deviation);  // 0 at the last step
    if (fresh != 0) walk.draw_noise(step);
    walk.change([=](float x, float e, float, float noise) { return from_x * x + from_noise * e + fresh * noise; });
    walk.done(step);
  }
}

void sample_ddpm(const ClipShape& shape, const Denoise& denoise, const SamplerOptions& options, std::span<float> clip) {
  const DdpmSchedule schedule = ddpm_schedule(options.steps);
  Walk walk(shape, 2 * shape.channels, denoise, options, clip);
  walk.start();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const std::int64_t index = options.steps - 1 - step;
    const DdpmStep& s = schedule[sized(index)];
    walk.predict(step, static_cast<float>(s.timestep));
    const float from_x = static_cast<float>(s.from_x0 / std::sqrt(s.alpha_bar) + s.from_xt);
    const float from_noise = static_cast<float>(-s.from_x0 * std::sqrt(1 / s.alpha_bar - 1));
    if (index == 0) {  // the mean is the clip
      walk.change([=](float x, float e, float, float) { return from_x * x + from_noise * e; });
    } else {
      walk.draw_noise(step);
      walk.change([&](float x, float e, float v, float noise) {
        return from_x * x + from_noise * e + static_cast<float>(std::exp(0.5 * learned_log_variance(s, v))) * noise;
      });
    }
    walk.done(step);
  }
}

}  // namespace reel::diffusion
