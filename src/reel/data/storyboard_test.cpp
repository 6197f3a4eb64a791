#include "reel/data/storyboard.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "reel/base/testing.h"
#include "reel/data/testing.h"

namespace reel::data {
namespace {

const Format kBoard{.channels = 3, .frames = 8, .height = 32, .width = 64, .text_tokens = 2, .text_width = 8};
const DataConfig kCamera{.source = "storyboard"}, kStatic{.source = "storyboard", .motion = "static"};

float at(const Clip& clip, const Format& f, std::int64_t c, std::int64_t frame, std::int64_t y, std::int64_t x) {
  return clip.values[static_cast<std::size_t>(((c * f.frames + frame) * f.height + y) * f.width + x)];
}

void expect_pixels_of_their_sources(const DataConfig& config, const Format& f) {
  Storyboard source(config, f);
  for (const Split split : {Split::kTraining, Split::kValidation}) {
    for (std::int64_t index = 0; index < 4; ++index) {
      const Clip clip = read(source, index, split);
      const Shown shown = source.shown(split, index);
      ASSERT_EQ(shown.rows * config.picture.cell, f.height);
      ASSERT_EQ(shown.columns * config.picture.cell, f.width);
      ASSERT_EQ(shown.cells.size(), static_cast<std::size_t>(f.frames / 2 * shown.rows * shown.columns));
      EXPECT_EQ(clip.label, shown.picture);
      for (std::int64_t frame = 0; frame < f.frames / 2; ++frame) {
        for (std::int64_t y = 0; y < f.height; ++y) {
          for (std::int64_t x = 0; x < f.width; ++x) {
            const Shown::Cell from = shown.at(frame, y / config.picture.cell, x / config.picture.cell);
            const std::int64_t from_y = from.row * config.picture.cell + y % config.picture.cell;
            const std::int64_t from_x = from.column * config.picture.cell + x % config.picture.cell;
            ASSERT_TRUE(from.frame >= 0 && from.frame < f.frames / 2);
            ASSERT_TRUE(from_y >= 0 && from_y < f.height && from_x >= 0 && from_x < f.width);
            for (std::int64_t c = 0; c < 3; ++c)
              ASSERT_EQ(at(clip, f, c, f.frames / 2 + frame, y, x), at(clip, f, c, from.frame, from_y, from_x));
          }
        }
      }
    }
  }
}

TEST(Storyboard, EveryPixelOfTheSecondHalfIsThatOfItsSource) {
  for (DataConfig config : {kCamera, kStatic}) {
    expect_pixels_of_their_sources(config, kBoard);
    config.picture.cell = 2;
    expect_pixels_of_their_sources(config, {.channels = 3, .frames = 4, .height = 10, .width = 6});
    config.picture.cell = 8;  // one cell: nothing can move
    expect_pixels_of_their_sources(config, {.channels = 3, .frames = 4, .height = 8, .width = 8});
  }
}

// Found from the pixels alone, by trying every picture and offset.
TEST(Storyboard, AStaticShotIsOnePictureAtOneOffset) {
  Storyboard source(kStatic, kBoard);
  for (std::int64_t index = 0; index < 3; ++index) {
    const Clip clip = read(source, index);
    std::vector<Shown::Cell> found;
    for (std::int64_t candidate = 0; candidate < 4 * 8 * 16; ++candidate) {
      const std::int64_t picture = candidate / 128, row = candidate / 16 % 8, column = candidate % 16;
      bool equal = true;
      for (std::int64_t i = 0; equal && i < 4 * 32 * 64; ++i) {
        const std::int64_t frame = i / 2048, y = i / 64 % 32, x = i % 64;
        equal = at(clip, kBoard, 1, 4 + frame, y, x) ==
                at(clip, kBoard, 1, picture, (y + 4 * row) % 32, (x + 4 * column) % 64);
      }
      if (equal) found.push_back({picture, row, column});
    }
    EXPECT_EQ(found, std::vector{source.shown(Split::kTraining, index).at(0, 0, 0)});
    EXPECT_EQ(found[0].frame, clip.label);
  }
}

TEST(Storyboard, PicturesAndOffsetsAreUniform) {
  const Storyboard source(kStatic, {.channels = 3, .frames = 8, .height = 16, .width = 32});
  std::map<std::int64_t, int> count;
  constexpr int kClips = 128 * 40;
  for (int index = 0; index < kClips; ++index) {
    const Shown::Cell first = source.shown(Split::kTraining, index).at(0, 0, 0);
    ++count[(first.frame * 4 + first.row) * 8 + first.column];
  }
  EXPECT_EQ(count.size(), 128u);
  double chi_squared = 0;
  for (const auto& [place, times] : count) chi_squared += (times - 40) * (times - 40) / 40.0;
  EXPECT_LT(chi_squared, 127 + 5 * 16);  // mean 127, deviation 16
}

std::int64_t wrap(std::int64_t place, std::int64_t length) { return (place % length + length) % length; }

TEST(Storyboard, TheCameraMovesEvenlyByUpToTwoCells) {
  const Storyboard source(kCamera, kBoard);
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (int index = 0; index < 300; ++index) {
    const Shown shown = source.shown(Split::kTraining, index);
    std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> offsets(4);
    for (int frame = 0; frame < 4; ++frame) {
      for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 16; ++column) {
          const Shown::Cell from = shown.at(frame, row, column);
          if (from.frame == shown.picture)
            offsets[static_cast<std::size_t>(frame)].emplace(wrap(from.row - row, 8), wrap(from.column - column, 16));
        }
      }
    }
    std::set<std::pair<std::int64_t, std::int64_t>> steps;
    for (std::size_t frame = 0; frame < 4; ++frame) {
      ASSERT_EQ(offsets[frame].size(), 1u);
      if (frame == 0) continue;
      const auto [row, column] = *offsets[frame].begin();
      const auto [row_before, column_before] = *offsets[frame - 1].begin();
      steps.emplace(wrap(row - row_before + 4, 8) - 4, wrap(column - column_before + 8, 16) - 8);
    }
    ASSERT_EQ(steps.size(), 1u);
    seen.insert(*steps.begin());
  }
  EXPECT_EQ(seen.size(), 25u);
  for (const auto& [down, right] : seen) EXPECT_TRUE(std::abs(down) <= 2 && std::abs(right) <= 2);
}

TEST(Storyboard, RectanglesOfOtherPicturesPassInFront) {
  const Storyboard source(kCamera, kBoard);
  double cells = 0, hidden = 0, later = 0, carried = 0, stays = 0;
  for (int index = 0; index < 100; ++index) {
    const Shown shown = source.shown(Split::kTraining, index);
    for (int frame = 0; frame < 4; ++frame) {
      for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 16; ++column, ++cells) {
          const Shown::Cell from = shown.at(frame, row, column);
          if (from.frame == shown.picture) continue;
          ++hidden;
          if (frame == 0) continue;
          ++later;
          bool found = false;
          for (int near = 0; near < 9; ++near)
            found |= shown.at(frame - 1, wrap(row + near / 3 - 1, 8), wrap(column + near % 3 - 1, 16)) == from;
          carried += found;
          stays += shown.at(frame - 1, row, column) == from;
        }
      }
    }
  }
  EXPECT_NEAR(hidden / cells, 0.25, 0.03);
  EXPECT_GT(carried / later, 0.95);           // the others come out from behind another rectangle
  EXPECT_NEAR(stays / later, 1.0 / 9, 0.06);  // one of nine velocities is none
}

TEST(Storyboard, AClipDependsOnSeedAndIndexAlone) {
  DataConfig other_seed = kCamera;
  other_seed.seed = 1;
  const auto first = make_source(kCamera, kBoard), second = make_source(kCamera, kBoard),
             other = make_source(other_seed, kBoard);
  read(*first, 7);
  EXPECT_TRUE(same(read(*first, 3), read(*second, 3)));
  EXPECT_TRUE(same(read(*first, 3), read(*first, 3 + first->size(Split::kTraining))));
  EXPECT_FALSE(same(read(*first, 3).values, read(*other, 3).values));
}

TEST(Storyboard, NoPictureIsDrawnTwice) {
  const auto source = make_source(kCamera, kBoard);
  EXPECT_EQ(source->size(Split::kValidation), 16);
  std::set<float> first_pixels;  // of 24 bits: two of 128 are the same once in two thousand seeds
  for (int index = 0; index < 16; ++index) {
    for (const Split split : {Split::kTraining, Split::kValidation}) {
      const Clip clip = read(*source, index, split);
      for (int frame = 0; frame < 4; ++frame) first_pixels.insert(at(clip, kBoard, 0, frame, 0, 0));
    }
  }
  EXPECT_EQ(first_pixels.size(), 128u);
}

TEST(Storyboard, LabelsTellThePictureAndTheTextDoesNot) {
  const auto source = make_source(kCamera, kBoard);
  EXPECT_EQ(source->labels(), (std::vector<std::string>{"picture 0", "picture 1", "picture 2", "picture 3"}));
  std::set<int> labels;
  for (int index = 0; index < 20; ++index) {
    const Clip clip = read(*source, index);
    EXPECT_EQ(clip.caption, "storyboard");
    EXPECT_TRUE(same(clip.text, source->text_of("storyboard")));
    labels.insert(clip.label);
  }
  EXPECT_EQ(labels, (std::set<int>{0, 1, 2, 3}));
}

TEST(Storyboard, RefusesSizesThatDoNotFit) {
  const auto message = [](std::int64_t channels, std::int64_t frames, std::int64_t height, std::int64_t width) {
    return message_of(
        [&] { make_source(kCamera, {.channels = channels, .frames = frames, .height = height, .width = width}); });
  };
  EXPECT_EQ(message(3, 8, 32, 32), "no error");
  EXPECT_NE(message(4, 8, 32, 32).find("3 channels, the model wants 4 | change the model"), std::string::npos);
  EXPECT_EQ(message(3, 7, 32, 32),
            "storyboard clips need an even number of frames, 4 or more, the model wants 7 | one half are pictures, the "
            "other half shows one of them: video.frames = 8, for example");
  EXPECT_NE(message(3, 2, 32, 32).find("the model wants 2"), std::string::npos);
  EXPECT_EQ(message(3, 8, 30, 33),
            "storyboard: 30 x 33 pixels cannot be cut into cells of 4 x 4 (data.cell) | use video.height = 32 and "
            "video.width = 36, or another data.cell (the model's patch)");
}

}  // namespace
}  // namespace reel::data
