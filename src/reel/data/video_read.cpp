#ifdef REEL_WITH_FFMPEG

#include <algorithm>
#include <cmath>
#include <utility>

#include "reel/data/ffmpeg.h"
#include "reel/data/video_file.h"

namespace reel::data {

namespace {

// The best video stream of a file, frame by frame in the order of showing. Times are in seconds from its first frame.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    av_log_set_level(AV_LOG_QUIET);
    AVDictionary* options = nullptr;
    av_dict_set(&options, "protocol_whitelist", "file", 0);  // a playlist must not open the network
    // "file:" keeps a colon in a name from being taken for a protocol. On failure FFmpeg frees the context.
    AVFormatContext* opened = nullptr;
    const int code = avformat_open_input(&opened, ("file:" + path).c_str(), nullptr, &options);
    av_dict_free(&options);
    check(code);
    format_.reset(opened);
    check(avformat_find_stream_info(opened, nullptr));
    const AVCodec* codec = nullptr;
    const int index = av_find_best_stream(opened, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (index == AVERROR_STREAM_NOT_FOUND) fail("there is no video in it");
    check(index);
    stream_ = opened->streams[index];
    for (unsigned i = 0; i < opened->nb_streams; ++i) {
      if (opened->streams[i] != stream_) opened->streams[i]->discard = AVDISCARD_ALL;
    }
    decoder_.reset(allocated(avcodec_alloc_context3(codec)));
    check(avcodec_parameters_to_context(decoder_.get(), stream_->codecpar));
    decoder_->pkt_timebase = stream_->time_base;
    decoder_->thread_count = 1;  // training has the cores
    check(avcodec_open2(decoder_.get(), codec, nullptr));
    const double rate = av_q2d(av_guess_frame_rate(opened, stream_, nullptr));
    fps_ = std::isfinite(rate) && rate > 0 ? rate : 25;
  }

  double fps() const { return fps_; }

  // As the header says; 0: it does not. It may be wrong.
  double duration() const {
    if (stream_->duration > 0) return static_cast<double>(stream_->duration) * av_q2d(stream_->time_base);
    if (stream_->nb_frames > 0) return static_cast<double>(stream_->nb_frames) / fps_;
    return format_->duration > 0 ? static_cast<double>(format_->duration) / AV_TIME_BASE : 0;
  }

  int quarter_turns() const {  // clockwise, to set the picture upright
    const std::uint8_t* matrix = av_stream_get_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
    if (matrix == nullptr) return 0;
    const double degrees = av_display_rotation_get(reinterpret_cast<const std::int32_t*>(matrix));
    return std::isnan(degrees) ? 0 : static_cast<int>(std::lround(-degrees / 90) % 4 + 4) % 4;
  }

  // To the key frame before this time. False: the file does not let itself be entered there.
  bool seek(double time) {
    const auto offset = static_cast<std::int64_t>(std::floor(time / av_q2d(stream_->time_base)));
    const bool found =
        av_seek_frame(format_.get(), stream_->index, first_timestamp() + offset, AVSEEK_FLAG_BACKWARD) >= 0;
    avcodec_flush_buffers(decoder_.get());
    draining_ = seen_ = false;
    count_ = 0;
    return found;
  }

  // The next frame; false at the end. Packets that cannot be decoded do not count until there was a frame: after seek
  // the first ones may refer to frames before.
  bool next() {
    for (;;) {
      const int code = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (code == 0) {
        seen_ = true;
        set_time();
        return true;
      }
      if (code == AVERROR_EOF) return false;
      if (code != AVERROR(EAGAIN)) check(code);
      feed();
    }
  }
  bool seen() const { return seen_; }  // a frame, since the last seek
  const AVFrame& frame() const { return *frame_; }
  double pixel_aspect() const {  // width of a pixel over its height; the container may know better than the frame
    const AVRational aspect = av_guess_sample_aspect_ratio(format_.get(), stream_, frame_.get());
    return aspect.num > 0 && aspect.den > 0 ? av_q2d(aspect) : 1;
  }
  double time() const { return time_; }
  bool timed() const { return timed_; }  // false: the file does not tell, frames were counted

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(fmt::format("{}: {}", path_, reason), "replace the file, or take it off the list");
  }

 private:
  struct Close {
    void operator()(AVFormatContext* context) const { avformat_close_input(&context); }
  };

  void check(int code) const {
    if (code < 0) fail(reason_of(code));
  }

  std::int64_t first_timestamp() const { return stream_->start_time == AV_NOPTS_VALUE ? 0 : stream_->start_time; }

  void feed() {
    REEL_CHECK(!draining_);
    int code = av_read_frame(format_.get(), packet_.get());
    if (code == AVERROR_EOF) {
      draining_ = true;
      check(avcodec_send_packet(decoder_.get(), nullptr));
      return;
    }
    check(code);
    if (packet_->stream_index == stream_->index) {
      if ((packet_->flags & AV_PKT_FLAG_CORRUPT) != 0)
        fail(fmt::format("it is cut off or damaged after {:.2f} s", time_));
      code = avcodec_send_packet(decoder_.get(), packet_.get());
      if (code < 0 && seen_)
        fail(fmt::format("the frame after {:.2f} s cannot be decoded: {}", time_, reason_of(code)));
    }
    av_packet_unref(packet_.get());
  }

  void set_time() {
    const std::int64_t timestamp = frame_->best_effort_timestamp;
    timed_ = timestamp != AV_NOPTS_VALUE;
    time_ = timed_ ? static_cast<double>(timestamp - first_timestamp()) * av_q2d(stream_->time_base)
                   : static_cast<double>(count_) / fps_;
    ++count_;
  }

  std::string path_;
  std::unique_ptr<AVFormatContext, Close> format_;
  Av<AVCodecContext> decoder_;
  Av<AVFrame> frame_{allocated(av_frame_alloc())};
  Av<AVPacket> packet_{allocated(av_packet_alloc())};
  AVStream* stream_ = nullptr;
  double fps_ = 0, time_ = 0;
  std::int64_t count_ = 0;
  bool draining_ = false, seen_ = false, timed_ = false;
};

// Turned clockwise.
Image turned(Image image, int quarters) {
  for (; quarters > 0; --quarters) {
    Image out(image.width, image.height);
    for (std::int64_t y = 0; y < out.height; ++y) {
      for (std::int64_t x = 0; x < out.width; ++x) std::copy_n(image.at(image.height - 1 - x, y), 3, out.at(y, x));
    }
    image = std::move(out);
  }
  return image;
}

// Decoded frames to pictures of the size that is wanted.
class Painter {
 public:
  Painter(const Reader& reader, const Excerpt& cut) : reader_(reader), turns_(reader.quarter_turns()) {
    height_ = turns_ % 2 == 0 ? cut.height : cut.width;
    width_ = turns_ % 2 == 0 ? cut.width : cut.height;
  }

  Image paint() {
    const AVFrame& frame = reader_.frame();
    const double pixel = reader_.pixel_aspect();
    const double tall = frame.height, wide = frame.width * pixel;
    if (!(tall >= 1 && wide >= 1 && std::max(tall, wide) <= 32 * std::min(tall, wide))) {
      reader_.fail(fmt::format("a frame of {} x {} pixels is not a picture", frame.width, frame.height));
    }
    const double scale = height_ == 0 ? 1 : std::max(height_ / tall, width_ / wide);
    const int height = std::max(static_cast<int>(height_), static_cast<int>(std::lround(tall * scale)));
    const int width = std::max(static_cast<int>(width_), static_cast<int>(std::lround(wide * scale)));
    scale_to(frame, width, height);
    Image image(height_ == 0 ? height : height_, width_ == 0 ? width : width_);
    const std::int64_t top = (height - image.height) / 2, left = (width - image.width) / 2;
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::copy_n(scaled_->data[0] + (top + y) * scaled_->linesize[0] + left * 3, image.width * 3, image.at(y, 0));
    }
    return turned(std::move(image), turns_);
  }

 private:
  void scale_to(const AVFrame& frame, int width, int height) {
    if (scaled_ == nullptr || scaled_->width != width || scaled_->height != height) {
      scaled_ = make_frame(AV_PIX_FMT_RGB24, width, height);
    }
    // Area averaging does not alias when it shrinks; bicubic is the sharper one when it enlarges.
    const int filter = width < frame.width || height < frame.height ? SWS_AREA : SWS_BICUBIC;
    const int flags = filter | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
    const auto format = static_cast<AVPixelFormat>(frame.format);
    converter_.reset(sws_getCachedContext(converter_.release(), frame.width, frame.height, format, width, height,
                                          AV_PIX_FMT_RGB24, flags, nullptr, nullptr, nullptr));
    if (converter_ == nullptr) reader_.fail("its pixel format cannot be converted");
    const int* from = sws_getCoefficients(frame.colorspace);  // BT.601 where the file does not say
    sws_setColorspaceDetails(converter_.get(), from, frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    sws_scale(converter_.get(), frame.data, frame.linesize, 0, frame.height, scaled_->data, scaled_->linesize);
  }

  const Reader& reader_;
  int turns_;
  std::int64_t height_, width_;  // before turning; 0: as the file
  Av<SwsContext> converter_;
  Av<AVFrame> scaled_;
};

// Frames nearest to start, start + step, ...; fewer when the file ends.
std::vector<Image> take(Reader& reader, Painter& painter, std::int64_t frames, double start, double step) {
  const double half = 0.5 / reader.fps();
  bool entered = start > 0 && reader.seek(start);
  if (start > 0 && !entered) reader.seek(0);
  std::vector<Image> images;
  while (static_cast<std::int64_t>(images.size()) < frames && reader.next()) {
    if (entered && (!reader.timed() || reader.time() > start + half)) {
      reader.seek(0);  // the index led astray: from the beginning, then
      entered = false;
      continue;
    }
    entered = false;
    const auto wanted = [&] { return start + step * static_cast<double>(images.size()); };
    if (reader.time() < wanted() - half) continue;
    const Image image = painter.paint();
    while (static_cast<std::int64_t>(images.size()) < frames && reader.time() >= wanted() - half)
      images.push_back(image);
  }
  return images;
}

}  // namespace

Video read_video(const std::string& path, const Excerpt& cut) {
  REEL_CHECK(cut.frames >= 0 && cut.stride >= 1 && cut.fps >= 0 && (cut.height == 0) == (cut.width == 0));
  Reader reader(path);
  Painter painter(reader, cut);
  if (cut.frames == 0) {
    Video video{{}, reader.fps()};
    while (reader.next()) video.frames.push_back(painter.paint());
    if (video.frames.empty()) reader.fail("it has no frame that can be decoded");
    return video;
  }
  const double rate = (cut.fps > 0 ? cut.fps : reader.fps()) / static_cast<double>(cut.stride);
  // Possible starts are the frames of the file after which enough of it is left.
  const double needed = static_cast<double>(cut.frames - 1) / rate + 1 / reader.fps();
  double duration = reader.duration();
  for (int attempt = 0;; ++attempt) {
    const double free = std::floor((duration - needed) * reader.fps() + 0.5);
    if (duration > 0 && free < 0) {
      reader.fail(fmt::format("it lasts {:.2f} s, {} frames at {:.4g} a second need {:.2f} s", duration, cut.frames,
                              rate, needed));
    }
    const double start = duration > 0 ? std::floor(cut.start * (free + 1)) / reader.fps() : 0;
    std::vector<Image> images = take(reader, painter, cut.frames, start, 1 / rate);
    if (static_cast<std::int64_t>(images.size()) == cut.frames) return {std::move(images), rate};
    // The header promised more than there is (often that of the sound). Now the end is known, or that it is before the
    // start: then from the beginning.
    if (!reader.seen() && start == 0) reader.fail("it has no frame that can be decoded");
    if (attempt == 2) reader.fail("it ends early and cannot be rewound");
    duration = reader.seen() ? reader.time() + 1 / reader.fps() : 0;
    reader.seek(0);
  }
}

}  // namespace reel::data

#endif
