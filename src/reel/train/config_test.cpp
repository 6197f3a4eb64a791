#include "reel/train/config.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

using testing::small_run;

std::string message_for(const std::string& text) {
  return message_of([&] { parse_run(Toml::parse(text, "run.toml")); });
}

TEST(RunFile, SlipsOfThePenAreNamedWithTheirLine) {
  EXPECT_EQ(message_for("[train]\nlr = 1e-3\nstpes = 10\n"),
            "run.toml:3: unknown key 'train.stpes' | did you mean 'train.steps'?");
  EXPECT_EQ(message_for("[trian]\nsteps = 10\n"),
            "run.toml:2: unknown key 'trian.steps' | did you mean 'train.steps'?");
  EXPECT_EQ(message_for("[model]\nfamily = \"wna\"\n").find("run.toml:2: model.family"), 0u);
  EXPECT_EQ(message_for("[train]\n\nsteps = 0\n").find("run.toml:3: train.steps"), 0u);
  EXPECT_EQ(message_for("[train]\nsteps = \"many\"\n").find("run.toml:2: train.steps must be an integer"), 0u);
  EXPECT_EQ(message_for("[model]\npatch = [1, 2]\n").find("run.toml:2: model.patch must have 3 numbers"), 0u);
}

TEST(RunFile, ClipsMustBeWholePatches) {
  EXPECT_EQ(message_for("[model]\npatch = [1, 4, 4]\n[video]\nheight = 32\nwidth = 30\n"),
            "run.toml:5: video.width = 30 is not a multiple of the patch, 4 | use 28 or 32, or another model.patch");
  EXPECT_EQ(
      message_for("[model]\npatch = [2, 4, 4]\n[video]\nframes = 7\n").find("run.toml:4: video.frames = 7 is not"), 0u);
  EXPECT_EQ(message_for("[video]\nwidth = 1\n"),
            "run.toml:2: video.width = 1 is not a multiple of the patch, 2 | use 2, or another model.patch");
  // Where the file does not say it, the default is at fault.
  EXPECT_EQ(message_for("[model]\npatch = [1, 5, 4]\n").find("run.toml: video.height = 32 is not"), 0u);
}

TEST(RunFile, SomeFramesMustBeLeftToPredict) {
  EXPECT_EQ(message_for("[diffusion]\nconditioning_frames = 8\n"),
            "run.toml:2: diffusion.conditioning_frames = 8 of 8 frames | leave at least one frame to predict");
  EXPECT_EQ(
      message_for("[model]\npatch = [2, 2, 2]\n[diffusion]\nconditioning_frames = 3\n"),
      "run.toml:4: diffusion.conditioning_frames = 3 cuts a patch of 2 frames | use a multiple of model.patch[0]");
}

TEST(RunFile, WhatItLeavesOpenFollowsFromTheData) {
  const RunConfig c = small_run("wan");
  EXPECT_EQ(c.model.channels, 3);
  EXPECT_EQ(c.model.text_tokens, c.text_tokens);
  EXPECT_EQ(c.model.text_width, c.text_width);
  EXPECT_GT(c.text_tokens, 0);
  EXPECT_EQ(small_run("latte").model.frames, 2);
  EXPECT_EQ(small_run("wan", {"model.text_width=24", "model.text_tokens=6"}).text_width, 24);
}

TEST(RunFile, OverridesCountAndAreKept) {
  const RunConfig c = small_run("wan", {"train.steps=77", "data.path=some where"});
  EXPECT_EQ(c.train.steps, 77);
  const RunConfig again = parse_run(Toml::parse(c.text, "config.toml"));
  EXPECT_EQ(again.train.steps, 77);
  EXPECT_EQ(again.data.path, "some where");
  EXPECT_EQ(message_of([] { small_run("wan", {"train.stpes=77"}); }),
            "--set train.stpes=77: unknown key 'train.stpes' | did you mean 'train.steps'?");
}

TEST(RunFile, ThoseOfTheRepositoryAreSound) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REEL_SOURCE_DIR "/configs")) {
    SCOPED_TRACE(entry.path());
    EXPECT_EQ(message_of([&] { load_run(entry.path(), {}); }), "no error");
    ++count;
  }
  EXPECT_GE(count, 1);
}

TEST(RunFile, LatentsAreLookedAt) {
  EXPECT_NE(
      message_for("[data]\nsource = \"latents\"\npath = \"/no/such\"\n").find("/no/such: no .safetensors file | "),
      std::string::npos);
  EXPECT_NE(message_for("[data]\nsource = \"latents\"\n").find("data.path: no .safetensors file | "),
            std::string::npos);
}

}  // namespace
}  // namespace reel::train
