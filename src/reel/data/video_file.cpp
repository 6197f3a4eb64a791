#include "reel/data/video_file.h"

#include "reel/base/error.h"
#include "reel/files/file.h"

namespace reel::data {

void write_mp4(const std::string& path, std::span<const Image> frames, double fps, std::int64_t scale) {
  write_file_atomically(path, mp4_bytes(frames, fps, scale));
}

#ifdef REEL_WITH_FFMPEG

bool video_supported() { return true; }

#else

bool video_supported() { return false; }

namespace {

[[noreturn]] void left_out() {
  throw Error("FFmpeg was left out of this build: no video files",
              "install libavformat-dev libavcodec-dev libavutil-dev libswscale-dev and build again");
}

}  // namespace

std::string mp4_bytes(std::span<const Image>, double, std::int64_t) { left_out(); }
Video read_video(const std::string&, const Excerpt&) { left_out(); }

#endif

}  // namespace reel::data
