#include "reel/data/image.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <limits>

#include "reel/base/random.h"
#include "reel/data/gif.h"
#include "reel/data/png.h"
#include "reel/data/testing.h"
#include "reel/data/video_file.h"

namespace reel::data {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

class Pictures : public Files {};

using Bytes = std::vector<std::uint8_t>;

Image random_image(std::int64_t height, std::int64_t width, std::uint64_t seed) {
  Image image(height, width);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<std::uint8_t>(Random(seed).bits(i));
  return image;
}

Image decode_png(const std::string& bytes) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()), 0);
  header.format = PNG_FORMAT_RGB;
  Image image(header.height, header.width);
  EXPECT_NE(png_image_finish_read(&header, nullptr, image.rgb.data(), 0, nullptr), 0);
  return image;
}

TEST(Image, PixelsAreClampedAndNanIsGrey) {
  const std::vector<float> red = {-1, 1, -3, 7, kNan, 0, kInfinity, -kInfinity};
  std::vector<float> values(red);
  values.resize(24, -1);
  const auto images = images_of(values, {.channels = 3, .frames = 2, .height = 2, .width = 2});
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].rgb, (Bytes{0, 0, 0, 255, 0, 0, 0, 0, 0, 255, 0, 0}));
  EXPECT_EQ(images[1].rgb, (Bytes{128, 0, 0, 128, 0, 0, 255, 0, 0, 0, 0, 0}));
}

TEST(Image, OneAndTwoChannelsAreGreyAndMoreShowThree) {
  const std::vector<float> values = {1, -1, 0.5f, 0, 0};
  const auto picture = [&](std::int64_t channels) {
    const std::span<const float> part(values.data(), static_cast<std::size_t>(channels));
    return images_of(part, {.channels = channels, .frames = 1, .height = 1, .width = 1})[0].rgb;
  };
  EXPECT_EQ(picture(1), (Bytes{255, 255, 255}));
  EXPECT_EQ(picture(2), (Bytes{255, 255, 255}));
  EXPECT_EQ(picture(3), (Bytes{255, 0, 191}));
  EXPECT_EQ(picture(5), (Bytes{255, 0, 191}));
}

TEST(Image, LatentsAreNormalisedByChannel) {
  // Mean 10 and deviation 2: 8 and 12 are half way to black and white. A NaN does not spoil the rest.
  const std::vector<float> values = {8, 12, 8, 12, kNan};
  const auto images = images_of(values, {.channels = 1, .frames = 5, .height = 1, .width = 1, .pixels = false});
  EXPECT_EQ(images[0].rgb[0], 64);
  EXPECT_EQ(images[1].rgb[0], 191);
  EXPECT_EQ(images[4].rgb[0], 128);
  const std::vector<float> flat = {5, 5};
  EXPECT_EQ(images_of(flat, {.channels = 1, .frames = 2, .height = 1, .width = 1, .pixels = false})[0].rgb[0], 128);
}

TEST(Image, EveryByteSurvivesTheWayToValuesAndBack) {
  const std::vector<Image> images = {random_image(5, 7, 1), random_image(5, 7, 2)};
  std::vector<float> values(2 * 5 * 7 * 3);
  values_of(images, values);
  EXPECT_EQ(images_of(values, {.channels = 3, .frames = 2, .height = 5, .width = 7}), images);
  for (const float value : values) EXPECT_TRUE(value >= -1 && value <= 1);
}

TEST(Image, ASheetHasARowForEachClip) {
  std::vector<std::vector<Image>> rows = {{Image(2, 3, 10), Image(2, 3, 20)}, {Image(2, 3, 30)}};
  const Image sheet = contact_sheet(rows, 2, 1);
  EXPECT_EQ(sheet.height, 1 + 2 * (4 + 1));
  EXPECT_EQ(sheet.width, 1 + 2 * (6 + 1));
  EXPECT_EQ(sheet.at(1, 1)[0], 10);
  EXPECT_EQ(sheet.at(4, 13)[0], 20);
  EXPECT_EQ(sheet.at(6, 6)[2], 30);
  EXPECT_EQ(sheet.at(6, 8)[0], sheet.at(0, 0)[0]);  // the second row is shorter
}

TEST(Image, SmallClipsAreEnlargedForViewing) {
  EXPECT_EQ(viewing_scale(Image(32, 48)), 8);
  EXPECT_EQ(viewing_scale(Image(100, 90)), 3);
  EXPECT_EQ(viewing_scale(Image(720, 1280)), 1);
  const Image image = random_image(3, 2, 5), large = enlarged(image, 3);
  EXPECT_EQ(large.height, 9);
  EXPECT_TRUE(std::equal(image.at(2, 1), image.at(2, 1) + 3, large.at(6, 5)));
}

TEST_F(Pictures, PngDecodesToTheSamePixels) {
  for (const auto& [height, width] : {std::pair{1, 1}, {5, 7}, {64, 33}}) {
    const Image image = random_image(height, width, 3);
    EXPECT_EQ(decode_png(png_bytes(image)), image);
    write_png(path("a.png"), image);
    EXPECT_EQ(read_file(path("a.png")), png_bytes(image));
  }
}

TEST_F(Pictures, GifDecodesToTheSameFewColours) {
  REEL_NEEDS_VIDEO();
  std::vector<Image> frames;
  for (int i = 0; i < 7; ++i) {
    Image frame(61, 83);
    for (std::int64_t y = 0; y < frame.height; ++y) {
      for (std::int64_t x = 0; x < frame.width;
           ++x) {  // 256 colours in no order: fills the table of codes several times
        const auto pick = Random(9, static_cast<std::uint64_t>(i)).bits(static_cast<std::uint64_t>(y * 83 + x)) & 255;
        frame.at(y, x)[0] = static_cast<std::uint8_t>((pick & 15) * 17);
        frame.at(y, x)[1] = static_cast<std::uint8_t>((pick >> 4) * 17);
      }
    }
    frames.push_back(frame);
  }
  write_gif(path("a.gif"), frames, 12.5, 1);
  const Video video = read_video(path("a.gif"));
  EXPECT_EQ(video.frames, frames);
  EXPECT_NEAR(video.fps, 12.5, 0.01);
}

TEST_F(Pictures, GifOfManyColoursIsNear) {
  REEL_NEEDS_VIDEO();
  Image smooth(64, 64);
  for (std::int64_t y = 0; y < 64; ++y) {
    for (std::int64_t x = 0; x < 64; ++x) {
      smooth.at(y, x)[0] = static_cast<std::uint8_t>(4 * x);
      smooth.at(y, x)[1] = static_cast<std::uint8_t>(4 * y);
      smooth.at(y, x)[2] = static_cast<std::uint8_t>(2 * (x + y));
    }
  }
  write_gif(path("a.gif"), std::vector{smooth, smooth}, 10, 2);
  const Video video = read_video(path("a.gif"));
  ASSERT_EQ(video.frames.size(), 2u);
  const Image expected = enlarged(smooth, 2);
  ASSERT_EQ(video.frames[0].rgb.size(), expected.rgb.size());
  int most = 0;  // 256 boxes over a plane of 256 x 256 shades are 16 wide, so colours are at most 16 off
  for (std::size_t i = 0; i < expected.rgb.size(); ++i) {
    most = std::max(most, std::abs(expected.rgb[i] - video.frames[0].rgb[i]));
  }
  EXPECT_LE(most, 16);
}

TEST(Gif, OnePixelOneFrame) {
  const std::string bytes = gif_bytes(std::vector{Image(1, 1, 200)}, 100, 1);
  EXPECT_TRUE(bytes.starts_with("GIF89a"));
  EXPECT_TRUE(bytes.ends_with('\x3b'));
}

}  // namespace
}  // namespace reel::data
