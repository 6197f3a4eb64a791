#include "reel/data/latents.h"

#include <gtest/gtest.h>

#include <limits>

#include "reel/base/random.h"
#include "reel/base/testing.h"
#include "reel/data/testing.h"
#include "reel/files/half.h"

namespace reel::data {
namespace {

const Format kFormat{
    .channels = 4, .frames = 2, .height = 3, .width = 5, .text_tokens = 3, .text_width = 2, .pixels = false};

class LatentFiles : public Files {
 protected:
  std::unique_ptr<Source> open(std::int64_t validation = 0, const Format& wanted = kFormat) {
    return make_source({.source = "latents", .path = path(), .validation = validation}, wanted, collect());
  }
  std::string error(const Format& wanted = kFormat) {
    return message_of([&] { open(0, wanted); });
  }
};

Clip random_clip(std::uint64_t seed, int label, const Format& format = kFormat) {
  Clip clip;
  clip.fit(format);
  Random(seed, 0).fill_normal(clip.values);
  Random(seed, 1).fill_normal(clip.text);
  clip.label = label;
  return clip;
}

std::vector<Clip> random_clips(int count) {
  std::vector<Clip> clips;
  for (int i = 0; i < count; ++i) clips.push_back(random_clip(static_cast<std::uint64_t>(i), i - 1));
  return clips;
}

TEST_F(LatentFiles, WhatWasWrittenIsReadShardAfterShard) {
  const std::vector<Clip> first = random_clips(3), second = random_clips(5);
  write_latents(path("a.safetensors"), first, kFormat);
  write_latents(path("b.safetensors"), second, kFormat);
  write_file_atomically(path("notes.txt"), "not a shard");
  const auto source = open();
  EXPECT_FALSE(source->format().pixels);
  ASSERT_EQ(source->size(Split::kTraining), 8);
  EXPECT_EQ(source->labels(), (std::vector<std::string>{"0", "1", "2", "3"}));
  Clip clip;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(source->read(Split::kTraining, i, clip));
    const int row = i % 8;
    EXPECT_TRUE(same(clip, row < 3 ? first[static_cast<std::size_t>(row)] : second[static_cast<std::size_t>(row - 3)]));
  }
}

TEST_F(LatentFiles, HalfPrecisionIsReadToo) {
  const std::vector<Clip> clips = random_clips(2);
  write_latents(path("a.safetensors"), clips, kFormat, Dtype::kBF16);
  write_latents(path("b.safetensors"), clips, kFormat, Dtype::kF16);
  const auto source = open();
  Clip clip;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(source->read(Split::kTraining, i, clip));
    const Clip& from = clips[static_cast<std::size_t>(i % 2)];
    for (std::size_t v = 0; v < clip.values.size(); ++v) {
      const float x = from.values[v];
      ASSERT_EQ(clip.values[v], i < 2 ? f32_from_bf16(bf16_from_f32(x)) : f32_from_f16(f16_from_f32(x)));
    }
  }
}

TEST_F(LatentFiles, AFileMayHoldOneClip) {
  const Clip one = random_clip(1, 4);
  const std::vector<std::int64_t> label = {4};
  SafetensorsWriter writer;
  writer.add("latents", {4, 2, 3, 5}, one.values);
  writer.add("text", {3, 2}, one.text);
  writer.add("labels", {}, label);
  writer.write(path("one.safetensors"));
  const auto source = open();
  Clip clip;
  ASSERT_EQ(source->size(Split::kTraining), 1);
  ASSERT_TRUE(source->read(Split::kTraining, 0, clip));
  EXPECT_TRUE(same(clip, one));
}

TEST_F(LatentFiles, ShortTextEndsInZeroRows) {
  const std::vector<Clip> clips = random_clips(2);
  Buffer<float> latents(2 * kFormat.values());
  for (std::size_t i = 0; i < 2; ++i)
    std::copy(clips[i].values.begin(), clips[i].values.end(), latents.data() + i * kFormat.values());
  const std::vector<float> text = {1, 2, 3, 4, 5, 6, 7, 8};  // two tokens each, the model takes three
  const std::vector<std::int64_t> lengths = {2, 1};
  SafetensorsWriter writer;
  writer.add("latents", {2, 4, 2, 3, 5}, latents);
  writer.add("text", {2, 2, 2}, text);
  writer.add("text_lengths", {2}, lengths);
  writer.write(path("a.safetensors"));
  const auto source = open();
  Clip clip;
  ASSERT_TRUE(source->read(Split::kTraining, 0, clip));
  EXPECT_EQ(std::vector<float>(clip.text.begin(), clip.text.end()), (std::vector<float>{1, 2, 3, 4, 0, 0}));
  ASSERT_TRUE(source->read(Split::kTraining, 1, clip));
  EXPECT_EQ(std::vector<float>(clip.text.begin(), clip.text.end()), (std::vector<float>{5, 6, 0, 0, 0, 0}));
  EXPECT_TRUE(same(source->text_of("1"), clip.text));
}

TEST_F(LatentFiles, TextForSamplingComesFromAClipOrAFile) {
  write_latents(path("a.safetensors"), random_clips(2), kFormat);
  const auto source = open();
  const std::vector<float> text = {1, 2, 3, 4};
  SafetensorsWriter writer;
  writer.add("text", {2, 2}, text);
  std::filesystem::create_directory(path("prompts"));
  writer.write(path("prompts/p.safetensors"));
  const Buffer<float> read = source->text_of(path("prompts/p.safetensors"));
  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), (std::vector<float>{1, 2, 3, 4, 0, 0}));
  EXPECT_NE(message_of([&] { source->text_of("a red fish"); }).find("no text encoder"), std::string::npos);
  EXPECT_NE(message_of([&] { source->text_of("2"); }).find("clips are numbered 0 to 1"), std::string::npos);
}

TEST_F(LatentFiles, HeldOutClipsAreOthers) {
  write_latents(path("a.safetensors"), random_clips(20), kFormat);
  const auto source = open(5);
  EXPECT_EQ(source->size(Split::kTraining), 15);
  Clip training, validation;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(source->read(Split::kValidation, i, validation));
    for (int j = 0; j < 15; ++j) {
      ASSERT_TRUE(source->read(Split::kTraining, j, training));
      EXPECT_FALSE(same(training, validation));
    }
  }
}

TEST_F(LatentFiles, WrongShapesNameFileAndTensor) {
  EXPECT_NE(error().find("no *.safetensors in this folder"), std::string::npos);
  write_latents(path("a.safetensors"), random_clips(2), kFormat);
  EXPECT_EQ(error(), "no error");
  Format wanted = kFormat;
  wanted.frames = 8;
  EXPECT_NE(error(wanted).find("a.safetensors: tensor 'latents' is [2, 4, 2, 3, 5], the model takes [4, 8, 3, 5]"),
            std::string::npos);
  wanted = kFormat;
  wanted.text_width = 9;
  EXPECT_NE(error(wanted).find("a.safetensors: tensor 'text' is [2, 3, 2], the model takes up to 3 tokens of width 9"),
            std::string::npos);
  wanted = kFormat;
  wanted.text_tokens = 2;
  EXPECT_NE(error(wanted).find("the model takes up to 2 tokens"), std::string::npos);
  wanted.text_tokens = wanted.text_width = 0;
  EXPECT_EQ(error(wanted), "no error");  // a model without text does not look at it
  Format silent = kFormat;
  silent.text_tokens = silent.text_width = 0;
  std::vector<Clip> clips;
  clips.push_back(random_clip(1, -1, silent));
  write_latents(path("b.safetensors"), clips, silent);
  EXPECT_NE(error().find("b.safetensors: there is no tensor 'text'"), std::string::npos);
}

TEST_F(LatentFiles, WrongTensorsNameFileAndTensor) {
  const Clip clip = random_clip(1, 0);
  const std::vector<std::int64_t> two = {1, 2}, large = {1 << 30}, negative = {-1};
  const std::vector<std::int32_t> integers(kFormat.values());
  const auto write = [&](const auto& fill) {
    SafetensorsWriter writer;
    fill(writer);
    writer.write(path("a.safetensors"));
    return error();
  };
  const auto with = [&](const char* tensor, const std::vector<std::int64_t>& values) {
    return write([&](SafetensorsWriter& writer) {
      writer.add("latents", {1, 4, 2, 3, 5}, clip.values);
      writer.add("text", {1, 3, 2}, clip.text);
      writer.add(tensor, {static_cast<std::int64_t>(values.size())}, values);
    });
  };
  EXPECT_NE(with("labels", two).find("tensor 'labels' is [2], there are 1 clips"), std::string::npos);
  EXPECT_NE(with("labels", large).find("tensor 'labels' holds 1073741824"), std::string::npos);
  EXPECT_NE(with("text_lengths", negative).find("tensor 'text_lengths' holds -1, it must be 0 to 3"),
            std::string::npos);
  EXPECT_NE(write([&](SafetensorsWriter& w) {
              w.add("latent", {4, 2, 3, 5}, clip.values);
            }).find("did you mean 'latent'"),
            std::string::npos);
  EXPECT_NE(write([&](SafetensorsWriter& w) {
              w.add("latents", {4, 2, 3, 5}, integers);
            }).find("tensor 'latents' is I32"),
            std::string::npos);
  EXPECT_NE(write([&](SafetensorsWriter& w) {
              w.add("latents", {4, 2, 3, 5}, clip.values);
              w.add("text", {1, 3, 2}, clip.text);
            }).find("one clip needs [tokens, width]"),
            std::string::npos);
}

TEST_F(LatentFiles, DamagedFilesAreSkippedAndCounted) {
  write_latents(path("b.safetensors"), random_clips(2), kFormat);
  const std::string whole = read_file(path("b.safetensors"));
  write_file_atomically(path("a.safetensors"), whole.substr(0, whole.size() - 4));
  const auto source = open();
  EXPECT_EQ(source->size(Split::kTraining), 2);
  EXPECT_EQ(source->skipped(), 1);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("skipping a file: " + path("a.safetensors") + ": "), std::string::npos) << warnings_[0];
  std::filesystem::remove(path("b.safetensors"));
  EXPECT_NE(error().find(": none of the files can be read"), std::string::npos);
}

TEST_F(LatentFiles, ClipsThatAreNotFiniteAndShardsThatVanishAreSkipped) {
  std::vector<Clip> clips = random_clips(2);
  clips[1].values[7] = std::numeric_limits<float>::quiet_NaN();
  write_latents(path("a.safetensors"), clips, kFormat);
  write_latents(path("b.safetensors"), random_clips(1), kFormat);
  const auto source = open();
  std::filesystem::remove(path("b.safetensors"));
  Clip clip;
  EXPECT_TRUE(source->read(Split::kTraining, 0, clip));
  EXPECT_FALSE(source->read(Split::kTraining, 1, clip));
  EXPECT_FALSE(source->read(Split::kTraining, 2, clip));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find("a.safetensors: tensor 'latents' is not finite in clip 1"), std::string::npos);
  EXPECT_NE(warnings_[1].find("b.safetensors: cannot be read: No such file"), std::string::npos);
}

}  // namespace
}  // namespace reel::data
