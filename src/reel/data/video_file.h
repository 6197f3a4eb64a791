// Video files, through FFmpeg.
//
// A build without FFmpeg has these functions too; each throws an Error that says what to install. FFmpeg's own messages
// are switched off (its log level is a global of the process): what matters of them is in the Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reel/data/image.h"

namespace reel::data {

bool video_supported();  // false: FFmpeg was left out of this build

// H.264 where FFmpeg has libx264, else MPEG-4; 4:2:0, BT.709. All frames have the same size; odd sides are made even by
// repeating the last row or column, which the colour format needs. scale 0: viewing_scale (image.h).
std::string mp4_bytes(std::span<const Image> frames, double fps, std::int64_t scale = 0);
void write_mp4(const std::string& path, std::span<const Image> frames, double fps,
               std::int64_t scale = 0);  // atomically

// What to take of a video.
struct Excerpt {
  std::int64_t frames = 0;             // 0: every frame of the file; fps, stride and start do not matter then
  std::int64_t height = 0, width = 0;  // 0: as the file; else the picture is scaled to cover this, and its centre taken
  double fps = 0;                      // 0: as the file
  std::int64_t stride = 1;             // of the frames at this rate every n-th is taken
  double start = 0;                    // which of the possible starts, in [0, 1): 0 is the first frame
};

struct Video {
  std::vector<Image> frames;
  double fps = 0;  // of these frames
};

// Frames at a constant rate (as they come where all are read), turned upright and with square pixels. The file is
// entered at the key frame before the start. An Error says why a file cannot be read: missing, not a video, damaged
// where it is needed, too short.
Video read_video(const std::string& path, const Excerpt& cut = {});

}  // namespace reel::data
