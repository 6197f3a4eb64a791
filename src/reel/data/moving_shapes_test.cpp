#include "reel/data/moving_shapes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "reel/base/testing.h"
#include "reel/data/testing.h"
#include "reel/data/words.h"

namespace reel::data {
namespace {

const Format kSmall{.channels = 3, .frames = 8, .height = 32, .width = 32, .text_tokens = 4, .text_width = 8};

float green(const Clip& clip, const Format& format, std::int64_t frame, std::int64_t y, std::int64_t x) {
  return clip.values[static_cast<std::size_t>(((format.frames + frame) * format.height + y) * format.width + x)];
}

TEST(MovingShapes, AClipDependsOnSeedAndIndexAlone) {
  const auto first = make_source({}, kSmall), second = make_source({}, kSmall),
             other = make_source({.seed = 1}, kSmall);
  read(*first, 7);
  EXPECT_TRUE(same(read(*first, 3), read(*second, 3)));
  EXPECT_FALSE(same(read(*first, 3), read(*first, 4)));
  EXPECT_FALSE(same(read(*first, 3), read(*other, 3)));
  EXPECT_TRUE(same(read(*first, 3), read(*first, 3 + first->size(Split::kTraining))));
}

TEST(MovingShapes, HeldOutClipsAreOthers) {
  const auto source = make_source({.validation = 5}, kSmall);
  EXPECT_EQ(source->size(Split::kValidation), 5);
  EXPECT_GT(source->size(Split::kTraining), 1 << 30);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 50; ++j)
      EXPECT_FALSE(same(read(*source, i, Split::kValidation).values, read(*source, j).values));
  }
}

TEST(MovingShapes, LabelAndCaptionSayWhatIsDrawn) {
  const auto source = make_source({}, kSmall);
  const auto labels = source->labels();
  std::map<int, int> count;
  for (int i = 0; i < 900; ++i) {
    const Clip clip = read(*source, i);
    ASSERT_GE(clip.label, 0);
    ASSERT_LT(clip.label, static_cast<int>(labels.size()));
    EXPECT_TRUE(clip.caption.ends_with(labels[static_cast<std::size_t>(clip.label)])) << clip.caption;
    EXPECT_EQ(words_of(clip.caption).size(), i % 3 == 2 ? 2u : 3u);
    EXPECT_TRUE(same(clip.text, source->text_of(clip.caption)));
    ++count[clip.label];
  }
  EXPECT_EQ(count.size(), labels.size());  // 30 expected of each
  for (const auto& [label, times] : count) EXPECT_GE(times, 10) << labels[static_cast<std::size_t>(label)];
  EXPECT_EQ(source->label_of("square right"), 0);
  EXPECT_EQ(message_of([&] { source->label_of("squar right"); }),
            "there is no label 'squar right' | did you mean 'square right'?");
}

TEST(MovingShapes, PixelsFillTheRangeAndShapesAreLarge) {
  const auto source = make_source({}, kSmall);
  for (int i = 0; i < 40; ++i) {
    const Clip clip = read(*source, i);
    int bright = 0;
    for (std::size_t p = 0; p < clip.values.size() / 3; ++p) {
      float most = -1;
      for (std::size_t c = 0; c < 3; ++c) {
        const float value = clip.values[c * clip.values.size() / 3 + p];
        ASSERT_TRUE(value >= -1 && value <= 1);
        most = std::max(most, value);
      }
      bright += most > 0.3f;
    }
    const double share = bright / static_cast<double>(clip.values.size() / 3);
    EXPECT_TRUE(share > 0.08 && share < 0.25) << clip.caption << " covers " << share;
  }
}

// Each frame of a straight motion is the one before, moved by width / frames, and the last leads to the first again.
TEST(MovingShapes, MotionIsEvenAndClosesTheLoop) {
  const auto source = make_source({}, kSmall);
  const std::map<std::string, std::pair<int, int>> steps = {
      {"right", {0, 4}}, {"left", {0, -4}}, {"down", {4, 0}}, {"up", {-4, 0}}};
  std::set<std::string> seen;
  for (int i = 0; i < 60; ++i) {
    const Clip clip = read(*source, i);
    const auto step = steps.find(words_of(clip.caption).back());
    if (step == steps.end()) continue;
    seen.insert(step->first);
    const auto [down, across] = step->second;
    for (int frame = 0; frame < 8; ++frame) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) {
          // The background is lighter above, so edges moved up or down mix with another one: at most 0.9 * 0.18 * 2
          const float before = green(clip, kSmall, frame, y, x);
          const float after = green(clip, kSmall, (frame + 1) % 8, (y + down + 32) % 32, (x + across + 32) % 32);
          ASSERT_NEAR(before, after, down == 0 ? 1e-4 : 0.33) << clip.caption;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), steps.size());
}

TEST(MovingShapes, AnyShapeOfFrameIsFine) {
  const Format wide{.channels = 3, .frames = 1, .height = 8, .width = 40};
  const auto source = make_source({}, wide);
  EXPECT_EQ(read(*source, 0).values.size(), wide.values());
  EXPECT_EQ(read(*source, 0).text.size(), 0u);
  Format latents = kSmall;
  latents.channels = 4;
  EXPECT_NE(message_of([&] { make_source({}, latents); }).find("the model wants 4 channels"), std::string::npos);
  latents.channels = 0;
  EXPECT_NE(message_of([&] { make_source({}, latents); }).find("at least one channel"), std::string::npos);
}

}  // namespace
}  // namespace reel::data
