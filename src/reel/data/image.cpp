#include "reel/data/image.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::data {

namespace {

constexpr std::uint8_t kGrey = 128, kBetween = 24;

std::uint8_t to_byte(float value) {
  if (std::isnan(value)) return kGrey;
  return static_cast<std::uint8_t>(std::lround((std::clamp(value, -1.0f, 1.0f) + 1) * 127.5f));
}

struct Range {
  double shift = 0, scale = 1;
};

// Moves two standard deviations around the mean to [-1, 1]; what is not finite does not count.
Range range_of(std::span<const float> channel) {
  double sum = 0, squares = 0, count = 0;
  for (const float value : channel) {
    if (std::isfinite(value)) sum += value, count += 1;
  }
  if (count == 0) return {};
  const double mean = sum / count;
  for (const float value : channel) {
    if (std::isfinite(value)) squares += (value - mean) * (value - mean);
  }
  const double deviation = std::sqrt(squares / count);
  return {mean, deviation > 0 ? 0.5 / deviation : 1};
}

}  // namespace

std::vector<Image> images_of(std::span<const float> values, const Format& format) {
  REEL_CHECK(values.size() == format.values() && format.channels > 0);
  const std::size_t plane = sized(format.height * format.width);
  const std::size_t frames = sized(format.frames);
  std::vector<Image> images(frames, Image(format.height, format.width));
  for (std::size_t c = 0; c < 3; ++c) {
    const auto channel = values.subspan((format.channels >= 3 ? c : 0) * frames * plane, frames * plane);
    const Range range = format.pixels ? Range{} : range_of(channel);
    for (std::size_t frame = 0; frame < frames; ++frame) {
      for (std::size_t i = 0; i < plane; ++i) {
        const double value = (channel[frame * plane + i] - range.shift) * range.scale;
        images[frame].rgb[i * 3 + c] = to_byte(static_cast<float>(value));
      }
    }
  }
  return images;
}

void values_of(std::span<const Image> images, std::span<float> out) {
  REEL_CHECK(!images.empty());
  const std::size_t plane = sized(images[0].height * images[0].width);
  REEL_CHECK(out.size() == images.size() * plane * 3);
  for (std::size_t frame = 0; frame < images.size(); ++frame) {
    REEL_CHECK(images[frame].rgb.size() == plane * 3);
    for (std::size_t c = 0; c < 3; ++c) {
      float* to = out.data() + (c * images.size() + frame) * plane;
      for (std::size_t i = 0; i < plane; ++i) to[i] = static_cast<float>(images[frame].rgb[i * 3 + c]) / 127.5f - 1;
    }
  }
}

Image enlarged(const Image& image, std::int64_t scale) {
  REEL_CHECK(scale >= 1);
  Image large(image.height * scale, image.width * scale);
  for (std::int64_t y = 0; y < large.height; ++y) {
    for (std::int64_t x = 0; x < large.width; ++x) std::copy_n(image.at(y / scale, x / scale), 3, large.at(y, x));
  }
  return large;
}

std::int64_t viewing_scale(const Image& image) {
  const std::int64_t side = std::max<std::int64_t>(1, std::min(image.height, image.width));
  return (256 + side - 1) / side;
}

Image contact_sheet(const std::vector<std::vector<Image>>& rows, std::int64_t scale, std::int64_t gap) {
  REEL_CHECK(!rows.empty() && !rows[0].empty() && scale >= 1 && gap >= 0);
  const std::int64_t height = rows[0][0].height, width = rows[0][0].width;
  std::size_t columns = 0;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  const std::int64_t down = height * scale + gap, across = width * scale + gap;
  Image sheet(gap + static_cast<std::int64_t>(rows.size()) * down, gap + static_cast<std::int64_t>(columns) * across,
              kBetween);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < rows[row].size(); ++column) {
      REEL_CHECK(rows[row][column].height == height && rows[row][column].width == width);
      const Image cell = enlarged(rows[row][column], scale);
      const std::int64_t top = gap + static_cast<std::int64_t>(row) * down;
      const std::int64_t left = gap + static_cast<std::int64_t>(column) * across;
      for (std::int64_t y = 0; y < cell.height; ++y)
        std::copy_n(cell.at(y, 0), cell.width * 3, sheet.at(top + y, left));
    }
  }
  return sheet;
}

}  // namespace reel::data
