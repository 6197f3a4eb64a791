// What the tests of this room share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "reel/data/clip.h"
#include "reel/data/image.h"
#include "reel/data/source.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"

namespace reel::data {

// A folder of its own for each test, gone afterwards.
class Files : public testing::Test {
 protected:
  std::string path(const std::string& name = {}) const { return (folder_ / name).string(); }

  // Warnings of the sources of this test, in order.
  Warn collect() {
    return [this](const std::string& message) { warnings_.push_back(message); };
  }

  TempFolder temp_;
  const std::filesystem::path folder_ = temp_.path();
  std::vector<std::string> warnings_;
};

#define REEL_NEEDS_VIDEO() \
  if (!video_supported()) GTEST_SKIP() << "this build has no FFmpeg"

inline Clip read(Source& source, std::int64_t index, Split split = Split::kTraining) {
  Clip clip;
  EXPECT_TRUE(source.read(split, index, clip));
  return clip;
}

inline bool same(const Buffer<float>& a, const Buffer<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline bool same(const Clip& a, const Clip& b) {
  return same(a.values, b.values) && same(a.text, b.text) && a.label == b.label && a.caption == b.caption;
}

// Frames that tell their number: frame i is grey with brightness 16 + 8 i, from 16 on, 28 frames at most.
inline std::vector<Image> numbered_frames(std::int64_t count, std::int64_t height, std::int64_t width) {
  std::vector<Image> frames;
  for (std::int64_t i = 0; i < count; ++i) frames.emplace_back(height, width, static_cast<std::uint8_t>(16 + 8 * i));
  return frames;
}

// The number of such a frame, from the middle of the picture: coding errors are far smaller than half a step.
inline std::int64_t number_of(const Image& frame) {
  return (frame.at(frame.height / 2, frame.width / 2)[1] - 16 + 4) / 8;
}

inline std::vector<std::int64_t> numbers_of(const std::vector<Image>& frames) {
  std::vector<std::int64_t> numbers;
  for (const Image& frame : frames) numbers.push_back(number_of(frame));
  return numbers;
}

}  // namespace reel::data
