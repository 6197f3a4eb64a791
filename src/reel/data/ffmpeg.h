// What the users of FFmpeg in this room share: objects that free themselves, and codes that become reasons.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

#include "reel/base/error.h"

namespace reel::data {

struct FreeAv {
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(SwsContext* context) const { sws_freeContext(context); }
};

template <class T>
using Av = std::unique_ptr<T, FreeAv>;

inline std::string reason_of(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof(text));
  return text;
}

// FFmpeg allocates and says null, nothing more.
template <class T>
T* allocated(T* object) {
  if (object == nullptr) throw Error("FFmpeg could not allocate memory", "use a machine with more memory");
  return object;
}

// A frame with memory for its pixels, padded and aligned as swscale and the encoders like it.
inline Av<AVFrame> make_frame(AVPixelFormat format, int width, int height) {
  Av<AVFrame> frame(allocated(av_frame_alloc()));
  frame->format = format;
  frame->width = width;
  frame->height = height;
  if (av_frame_get_buffer(frame.get(), 0) < 0) {
    throw Error(fmt::format("FFmpeg could not allocate a frame of {} x {}", width, height), "use smaller frames");
  }
  return frame;
}

}  // namespace reel::data
