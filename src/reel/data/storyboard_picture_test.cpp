#include "reel/data/storyboard_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "reel/data/icons.h"

namespace reel::data {
namespace {

Picture draw(std::uint64_t number, const PictureStyle& style, std::int64_t height = 32, std::int64_t width = 64) {
  Picture picture(height, width);
  draw_picture(Random(1, number), style, picture);
  return picture;
}

float at(const Picture& picture, std::int64_t c, std::int64_t y, std::int64_t x) {
  return picture.values[static_cast<std::size_t>((c * picture.height + y) * picture.width + x)];
}

TEST(StoryboardPictures, HaveMeanZeroAndDeviation07InEveryStyle) {
  for (const char* drawn : {"shapes", "icons"}) {
    for (const double texture : {0.0, 0.3, 1.0}) {
      for (const double coarse : {0.0, 0.2}) {
        double sum = 0, squares = 0, count = 0;
        for (std::uint64_t number = 0; number < 40; ++number) {
          for (const float value : draw(number, {.texture = texture, .coarse = coarse, .drawn = drawn}).values) {
            sum += value, squares += static_cast<double>(value) * value, ++count;
          }
        }
        // 40 pictures have 960 coarse colours of deviation 0.7 * sqrt(0.2) at most: their mean deviates by 0.01.
        EXPECT_NEAR(sum / count, 0, 0.03) << drawn << " " << texture << " " << coarse;
        EXPECT_NEAR(std::sqrt(squares / count), 0.7, 0.02) << drawn << " " << texture << " " << coarse;
      }
    }
  }
}

// Whether these 8 x 8 pixels show the icon in two colours, mirrored or not.
bool shows(const Picture& picture, std::int64_t top, std::int64_t left, std::size_t icon, bool mirrored) {
  std::array<std::vector<float>, 2> color;  // of pixels that are not set, and set
  for (std::size_t i = 0; i < kIconSide * kIconSide; ++i) {
    const std::size_t y = i / kIconSide, x = i % kIconSide;
    std::vector<float> pixel;
    for (int c = 0; c < 3; ++c)
      pixel.push_back(at(picture, c, top + static_cast<std::int64_t>(y), left + static_cast<std::int64_t>(x)));
    std::vector<float>& seen = color[icon_pixel(icon, y, mirrored ? kIconSide - 1 - x : x) ? 1 : 0];
    if (seen.empty()) seen = pixel;
    if (seen != pixel) return false;
  }
  return color[0] != color[1];
}

TEST(StoryboardPictures, IconsStandSideBySideInColorsOfTheirOwn) {
  const Picture picture = draw(3, {.texture = 0, .drawn = "icons"});
  std::set<std::size_t> kinds;
  std::set<float> reds;
  for (std::int64_t top = 0; top < 32; top += 8) {
    for (std::int64_t left = 0; left < 64; left += 8) {
      std::size_t icon = 0;
      while (icon < kIcons && !shows(picture, top, left, icon, false) && !shows(picture, top, left, icon, true)) ++icon;
      EXPECT_LT(icon, kIcons) << top << " " << left;
      kinds.insert(icon);
      reds.insert(at(picture, 0, top, left));
    }
  }
  EXPECT_GT(kinds.size(), 8u);  // of 16 in 32 draws
  EXPECT_EQ(reds.size(), 32u);
}

// As much in every direction as pure noise has, so that a scalar product tells cells apart.
TEST(StoryboardPictures, ColorsOfIconsHaveNoDirection) {
  double moments[3][3] = {}, count = 0;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Picture picture = draw(number, {.texture = 0, .drawn = "icons"});
    for (std::int64_t top = 0; top < 32; top += 8) {
      for (std::int64_t left = 0; left < 64; left += 8, ++count) {
        for (int a = 0; a < 3; ++a) {
          for (int b = 0; b < 3; ++b) moments[a][b] += at(picture, a, top, left) * at(picture, b, top, left);
        }
      }
    }
  }
  for (int a = 0; a < 3; ++a) {  // 3200 colours: the mean of a product deviates by 0.008
    for (int b = 0; b < 3; ++b) EXPECT_NEAR(moments[a][b] / count, a == b ? 0.49 : 0, 0.04) << a << " " << b;
  }
}

TEST(StoryboardPictures, PureTextureIsNormalAndNotClipped) {
  double outside = 0, fourth = 0, count = 0;
  for (std::uint64_t number = 0; number < 20; ++number) {
    for (const float value : draw(number, {.texture = 1, .coarse = 0}).values) {
      outside += std::abs(value) > 1, fourth += std::pow(value / 0.7, 4), ++count;
    }
  }
  EXPECT_NEAR(outside / count, 0.1531, 0.005);  // beyond 1 / 0.7 deviations
  EXPECT_NEAR(fourth / count, 3, 0.15);
}

TEST(StoryboardPictures, CoarseIsTheShareThatFourByFourCellsHaveInCommon) {
  double inside = 0, across = 0;
  constexpr int kPictures = 200;
  for (std::uint64_t number = 0; number < kPictures; ++number) {
    const Picture picture = draw(number, {.cell = 2, .texture = 1, .coarse = 0.5}, 16, 32);  // blocks of 8 x 8 pixels
    for (int c = 0; c < 3; ++c) {
      for (int block = 0; block < 8; ++block) {
        const int y = block / 4 * 8, x = block % 4 * 8;
        inside += at(picture, c, y, x) * at(picture, c, y + 7, x + 7);
        across += at(picture, c, y, x) * at(picture, c, y + 7, (x + 8) % 32);
      }
    }
  }
  const double count = 0.49 * kPictures * 3 * 8;  // 4800 products of deviation 1.1: their mean deviates by 0.016
  EXPECT_NEAR(inside / count, 0.5, 0.06);
  EXPECT_NEAR(across / count, 0, 0.06);
}

// The least squared distance between two cells of four pictures.
double least_distance(const PictureStyle& style) {
  std::vector<std::vector<float>> cells;
  for (std::uint64_t number = 0; number < 4; ++number) {
    const Picture picture = draw(number, style);
    for (std::int64_t y = 0; y < picture.height; y += style.cell) {
      for (std::int64_t x = 0; x < picture.width; x += style.cell) {
        cells.emplace_back();
        for (std::int64_t i = 0; i < 3 * style.cell * style.cell; ++i) {
          const std::int64_t pixel = i / 3;
          cells.back().push_back(at(picture, i % 3, y + pixel / style.cell, x + pixel % style.cell));
        }
      }
    }
  }
  double least = 1e9;
  for (std::size_t a = 0; a < cells.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      float distance = 0;
      for (std::size_t i = 0; i < cells[a].size(); ++i)
        distance += (cells[a][i] - cells[b][i]) * (cells[a][i] - cells[b][i]);
      least = std::min<double>(least, distance);
    }
  }
  return least;
}

TEST(StoryboardPictures, EveryCellCanBeToldFromAllOthersByItsTexture) {
  // The mean is 2 * 48 * 0.24 * 0.49 = 11.3 for cells that are drawn alike; the least of 130 thousand pairs about 5.
  EXPECT_GT(least_distance({}), 4);
  EXPECT_LT(least_distance({.texture = 0}), 0.01);
}

// A seam would make the step over the border larger than most; without one, every step is so equally often.
TEST(StoryboardPictures, ContinueOverTheirBorders) {
  constexpr int kPictures = 300, kSide = 32;
  int large_across = 0, large_down = 0;
  const auto is_large = [](std::vector<float>& steps) {  // the last one: among the largest 6 of 32
    const float border = steps.back();
    std::nth_element(steps.begin(), steps.end() - 7, steps.end());
    return border > *(steps.end() - 7);
  };
  for (std::uint64_t number = 0; number < kPictures; ++number) {
    const Picture picture = draw(number, {.texture = 0}, kSide, kSide);
    std::vector<float> across(kSide), down(kSide);  // sums of the steps to the next column and row
    for (int i = 0; i < 3 * kSide * kSide; ++i) {
      const int c = i / (kSide * kSide), y = i / kSide % kSide, x = i % kSide;
      across[static_cast<std::size_t>(x)] += std::abs(at(picture, c, y, (x + 1) % kSide) - at(picture, c, y, x));
      down[static_cast<std::size_t>(y)] += std::abs(at(picture, c, (y + 1) % kSide, x) - at(picture, c, y, x));
    }
    large_across += is_large(across);
    large_down += is_large(down);
  }
  EXPECT_NEAR(large_across, 56, 28);  // 300 * 6 / 32, deviation 7
  EXPECT_NEAR(large_down, 56, 28);
}

TEST(StoryboardPictures, AnySizeIsFine) {
  for (const std::int64_t size : {1, 2, 5}) {
    for (const char* drawn : {"shapes", "icons"}) {
      for (const float value : draw(3, {.cell = 1, .drawn = drawn}, size, 3).values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

}  // namespace
}  // namespace reel::data
