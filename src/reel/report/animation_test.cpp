#include "reel/report/animation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/report/testing.h"

namespace reel::report {
namespace {

std::string show(const ClipStrip& clip) { return clip_grid({{"step 0", {clip}}}, {}).markup; }

TEST(ClipGrid, StepsThroughTheFramesAtTheirSpeed) {
  const std::string markup =
      show({.png = "foobar", .frames = 8, .width = 32, .height = 16, .fps = 4, .caption = "a disc"});
  EXPECT_NE(markup.find("src=\"data:image/png;base64,Zm9vYmFy\" alt=\"a disc\""), std::string::npos);
  EXPECT_NE(markup.find("animation-duration:2.000s;animation-timing-function:steps(8)"), std::string::npos);
  EXPECT_NE(markup.find("--wide:128px;--small:84px;--frames:8"), std::string::npos) << markup;  // 4 x 32
  EXPECT_NE(markup.find("aspect-ratio:32/16"), std::string::npos);
  EXPECT_NE(markup.find("<figcaption>a disc</figcaption>"), std::string::npos);
  EXPECT_NE(show({.png = "x", .frames = 1, .width = 8, .height = 8}).find("animation:none"), std::string::npos);
}

TEST(ClipGrid, SmallFramesAreEnlargedByAWholeNumberAndLargeOnesFit) {
  const auto width = [](int w, int h) {
    return std::stoi(all_between(show({.png = "x", .width = w, .height = h}), "--wide:", "px").at(0));
  };
  EXPECT_EQ(width(8, 8), 144);
  EXPECT_EQ(width(48, 48), 144);
  EXPECT_EQ(width(64, 64), 128);
  EXPECT_EQ(width(100, 60), 100);
  EXPECT_EQ(width(832, 480), 144);
  EXPECT_EQ(width(480, 832), 83);
  EXPECT_EQ(width(1, 100000), 1);
  EXPECT_EQ(count_of(show({.png = "x", .width = 832, .height = 480}), "sharp"), 0u);
}

TEST(ClipGrid, RealClipsStandBesideSampledOnes) {
  const ClipStrip clip{.png = "x", .frames = 2, .width = 8, .height = 8, .caption = "<b>\"'"};
  const std::string markup = clip_grid({{"step 0", {clip, clip}}, {"<i>", {clip}}}, {clip}).markup;
  EXPECT_EQ(markup_fault(markup), "");
  EXPECT_EQ(count_of(markup, "<img"), 4u);
  EXPECT_LT(markup.find("Sampled"), markup.find("Real"));
  EXPECT_EQ(clip_grid({}, {clip}).markup.find("Sampled"), std::string::npos);
  EXPECT_EQ(clip_grid({{"", {clip}}}, {}).markup.find("Real"), std::string::npos);
}

TEST(ClipRows, FiveClipsFillAPageOneBelowTheOtherTheRest) {
  const ClipStrip clip{.png = "x", .frames = 4, .width = 64, .height = 32, .caption = "dense, 20.1 dB"};
  const std::string markup = clip_rows({{"clip <1>", {clip, clip}}, {"", {clip}}}).markup;
  EXPECT_EQ(markup_fault(markup), "");
  EXPECT_EQ(count_of(markup, "<img"), 3u);
  EXPECT_EQ(count_of(markup, "--wide:192px;--small:84px;--frames:4"), 3u) << markup;
  EXPECT_EQ(count_of(markup, "<span>"), 1u);
  EXPECT_NE(markup.find("<span>clip &lt;1&gt;</span>"), std::string::npos);
}

// Browsers begin the animations of elements as these arrive: each with its own would show different frames.
TEST(ClipRows, OneAnimationMovesAllClips) {
  const ClipStrip still{.png = "x", .frames = 1, .width = 8, .height = 8}, moving{.frames = 4, .width = 8, .height = 8};
  const std::string markup = clip_rows({{"", {still, moving}}, {"", {moving}}}).markup;
  EXPECT_EQ(count_of(markup, "animation-duration:0.500s;animation-timing-function:steps(4)"), 1u) << markup;
  EXPECT_EQ(count_of(markup, "transform:none"), 1u) << "what does not move stays";
  EXPECT_NE(clip_rows({{"", {still}}}).markup.find("animation:none"), std::string::npos);
  ClipStrip other = moving;
  other.frames = 3;
  EXPECT_DEATH(clip_rows({{"", {moving, other}}}), "frames");
}

TEST(ClipGrid, AClipWithoutFramesIsABug) {
  EXPECT_DEATH(show({.png = "x", .frames = 0, .width = 8, .height = 8}), "frames > 0");
  EXPECT_DEATH(show({.png = "x", .frames = 2, .width = 8, .height = 8, .fps = NAN}), "fps");
}

}  // namespace
}  // namespace reel::report
