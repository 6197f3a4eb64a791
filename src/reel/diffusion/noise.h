// Clips, the random numbers that belong to them, and how noise is mixed in.
//
// A batch of clips is [batch][channels][frames][height][width], f32, contiguous. A plane is one channel of one frame:
// height x width consecutive values.
//
// Every random number has an address: seed, purpose, step, number of the sample in the global batch, and element of
// the clip in raster order. So a sample gets the same noise and time however the batch is cut over ranks and micro
// batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"

namespace reel::diffusion {

struct ClipShape {
  std::int64_t batch, channels, frames, height, width;

  std::size_t plane() const { return sized(height * width); }
  std::size_t sample() const { return sized(channels * frames) * plane(); }
  std::size_t size() const { return sized(batch) * sample(); }
  // The same clips with the channels of a model's output.
  ClipShape with_channels(std::int64_t count) const { return {batch, count, frames, height, width}; }
  // Where plane (b, c, f) begins.
  std::size_t at(std::int64_t b, std::int64_t c, std::int64_t f) const {
    return sized((b * channels + c) * frames + f) * plane();
  }
};

// The samples of a batch are numbers first_sample, first_sample + 1, ... of the global batch of `step`.
struct Draws {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;
};

// Purposes have streams of their own: none shares numbers with another, or with streams below 2^48 of the same seed.
enum class Purpose : std::uint64_t {
  kTrainingTime = 0xd1f0,
  kTrainingNoise,
  kTextDropout,
  kSamplingStart,
  kSamplingStep
};

void fill_noise(Purpose purpose, const Draws& draws, const ClipShape& shape, std::span<float> out);

// One number a sample: uniform in [0, 1), normal, or uniform in 0 .. limit - 1.
std::vector<float> draw_uniform(Purpose purpose, const Draws& draws, std::int64_t batch);
std::vector<float> draw_normal(Purpose purpose, const Draws& draws, std::int64_t batch);
std::vector<std::int64_t> draw_below(Purpose purpose, const Draws& draws, std::int64_t batch, std::int64_t limit);

// 1 for each sample that is trained without its text (diffusion.text_dropout).
std::vector<std::uint8_t> draw_text_dropout(double share, const Draws& draws, std::int64_t batch);

// What a training step shows to the model, and what the loss compares its output with.
struct Noised {
  Buffer<float> x;                 // the noisy clips; conditioning frames are clean
  Buffer<float> target;            // velocity (flow) or noise (ddpm); 0 in conditioning frames
  std::vector<float> frame_times;  // [batch][frames], as the model takes them (0 .. 1000); 0 in conditioning frames
  std::vector<float> frame_mask;   // [batch][frames]: 1 where the loss counts, 0 in conditioning frames
};

// How the clips of one sample are mixed: x = x_data x_0 + x_noise noise, target likewise.
struct Mix {
  float time;  // what the model is told
  float x_data, x_noise;
  float target_data, target_noise;
};

// x_0 and noise have the clip shape, there is one mix a sample; the first `conditioning_frames` frames are given. An
// Error when no frame is left to predict.
Noised mix(const ClipShape& shape, std::span<const float> x0, std::span<const float> noise, std::span<const Mix> mixes,
           std::int64_t conditioning_frames);

// [batch][frames]: `time`, but 0 in the conditioning frames. The same Error.
std::vector<float> frame_times(const ClipShape& shape, float time, std::int64_t conditioning_frames);

// How many elements of the clips count for a loss.
std::int64_t counted(const ClipShape& shape, const Noised& noised);

}  // namespace reel::diffusion
