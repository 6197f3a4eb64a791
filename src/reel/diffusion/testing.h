// What the tests of this room share.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "reel/base/random.h"
#include "reel/diffusion/sampler.h"

namespace reel::diffusion {

inline std::vector<float> normals(std::size_t size, std::uint64_t stream) {
  std::vector<float> values(size);
  Random(5, stream).fill_normal(values);
  return values;
}

// The noise that a sampler starts from.
inline std::vector<float> start_noise(const ClipShape& shape, std::uint64_t seed) {
  std::vector<float> noise(shape.size());
  fill_noise(Purpose::kSamplingStart, {seed, 0, 0}, shape, noise);
  return noise;
}

// What a model says about an element: its channel c, and c + C where it has 2 C channels.
struct Pair {
  double first, second;
};

// A model that computes every element by itself: answer(x, time of the frame) is a Pair.
inline Denoise model(const ClipShape& shape, std::int64_t output_channels, const auto& answer) {
  return [=](std::span<const float> x, std::span<const float> times, bool, std::span<float> out) {
    const ClipShape out_shape = shape.with_channels(output_channels);
    ASSERT_EQ(x.size(), shape.size());
    ASSERT_EQ(out.size(), out_shape.size());
    ASSERT_EQ(times.size(), static_cast<std::size_t>(shape.batch * shape.frames));
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        for (std::int64_t f = 0; f < shape.frames; ++f) {
          const double time = times[static_cast<std::size_t>(b * shape.frames + f)];
          for (std::size_t i = 0; i < shape.plane(); ++i) {
            const auto [first, second] = answer(x[shape.at(b, c, f) + i], time);
            out[out_shape.at(b, c, f) + i] = static_cast<float>(first);
            if (output_channels > shape.channels) {
              out[out_shape.at(b, c + shape.channels, f) + i] = static_cast<float>(second);
            }
          }
        }
      }
    }
  };
}

}  // namespace reel::diffusion
