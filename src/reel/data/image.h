// Pictures of clips: 8-bit RGB, as files and pages want them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/data/clip.h"

namespace reel::data {

struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> rgb;  // [height][width][3]

  Image() = default;
  Image(std::int64_t rows, std::int64_t columns, std::uint8_t grey = 0)
      : height(rows), width(columns), rgb(sized(rows * columns * 3), grey) {}
  std::uint8_t* at(std::int64_t y, std::int64_t x) { return rgb.data() + (y * width + x) * 3; }
  const std::uint8_t* at(std::int64_t y, std::int64_t x) const { return rgb.data() + (y * width + x) * 3; }
  bool operator==(const Image&) const = default;
};

// The frames of a clip. Pixels: -1 is 0 and 1 is 255, what is outside is clamped; latents: each channel is shifted and
// scaled so that its mean over the clip is grey and two standard deviations reach black and white. Three channels and
// more show the first three as red, green and blue; one or two show the first as grey. NaN is grey.
std::vector<Image> images_of(std::span<const float> values, const Format& format);

// The way back for pixels: [3][frames][height][width] in [-1, 1]. All images have the same size; out fits it.
void values_of(std::span<const Image> images, std::span<float> out);

// Every pixel becomes scale x scale pixels.
Image enlarged(const Image& image, std::int64_t scale);

// The smallest scale that gives a short side of 256 pixels or more: players and pages show small clips as specks.
std::int64_t viewing_scale(const Image& image);

// A row for each clip, a column for each of its frames, `gap` pixels between and around them. All images have the same
// size; rows may differ in length.
Image contact_sheet(const std::vector<std::vector<Image>>& rows, std::int64_t scale = 1, std::int64_t gap = 2);

}  // namespace reel::data
