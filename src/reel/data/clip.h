// A clip: what a model learns from, and the format that all clips of a run share.
//
// Layouts: values [channels][frames][height][width], text [text_tokens][text_width], both f32 and contiguous. Values
// are pixels in [-1, 1] (black to white; textures of storyboard go beyond) or latents of somebody's encoder. Text that
// is shorter than text_tokens ends in zero rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"

namespace reel::data {

struct Format {
  std::int64_t channels = 3, frames = 1, height = 1, width = 1;
  std::int64_t text_tokens = 0, text_width = 0;  // 0: no text
  bool pixels = true;                            // false: latents

  std::size_t values() const { return sized(channels * frames * height * width); }
  std::size_t text_values() const { return sized(text_tokens * text_width); }
  bool operator==(const Format&) const = default;
};

constexpr std::int64_t kMostLabels = 1 << 20;  // a model keeps a vector for each: a larger number is a slip

struct Clip {
  Buffer<float> values;
  int label = -1;  // below kMostLabels; -1: none
  Buffer<float> text;
  std::string caption;

  // Memory for this format, kept where it has the right size; what is in it is left to the caller.
  void fit(const Format& format) {
    if (values.size() != format.values()) values = Buffer<float>(format.values());
    if (text.size() != format.text_values()) text = Buffer<float>(format.text_values());
  }
};

}  // namespace reel::data
