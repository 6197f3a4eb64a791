#ifdef REEL_WITH_FFMPEG

#include <algorithm>
#include <utility>

#include "reel/base/sized.h"
#include "reel/data/ffmpeg.h"
#include "reel/data/video_file.h"

namespace reel::data {

namespace {

void check(int code, const char* doing) {
  if (code < 0) throw Error(fmt::format("cannot make an mp4: {} failed: {}", doing, reason_of(code)));
}

// The mp4 file in memory: small clips only, and files/file.h then writes it atomically.
class Muxer {
 public:
  Muxer() {
    check(avformat_alloc_output_context2(&format_, nullptr, "mp4", nullptr), "opening the muxer");
    check(avio_open_dyn_buf(&format_->pb), "opening the output");
  }
  ~Muxer() {
    if (format_->pb != nullptr) finish();
    avformat_free_context(format_);
  }
  Muxer(const Muxer&) = delete;
  Muxer& operator=(const Muxer&) = delete;

  AVFormatContext* get() { return format_; }
  std::string finish() {
    std::uint8_t* bytes = nullptr;
    const int size = avio_close_dyn_buf(std::exchange(format_->pb, nullptr), &bytes);
    std::string text(reinterpret_cast<const char*>(bytes), sized(std::max(size, 0)));
    av_free(bytes);
    return text;
  }

 private:
  AVFormatContext* format_ = nullptr;
};

Av<AVCodecContext> open_encoder(int width, int height, AVRational fps, bool global_header) {
  // By name: the first H.264 encoder FFmpeg finds may be one for hardware that is not there.
  const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
  const bool x264 = codec != nullptr;
  if (!x264) codec = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
  if (codec == nullptr) throw Error("FFmpeg has neither libx264 nor its MPEG-4 encoder", "write a GIF instead");
  Av<AVCodecContext> encoder(allocated(avcodec_alloc_context3(codec)));
  encoder->width = width;
  encoder->height = height;
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder->framerate = fps;
  encoder->time_base = av_inv_q(fps);
  encoder->gop_size = 12;     // a key frame every 12: these clips are looked at frame by frame
  encoder->thread_count = 1;  // the same bytes on every machine
  encoder->colorspace = AVCOL_SPC_BT709;
  encoder->color_primaries = AVCOL_PRI_BT709;
  encoder->color_trc = AVCOL_TRC_BT709;
  encoder->color_range = AVCOL_RANGE_MPEG;
  if (global_header) encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  AVDictionary* options = nullptr;
  if (x264) {
    av_dict_set(&options, "crf", "14", 0);  // hardly a difference to see; a 256 x 256 clip takes some 50 KB
  } else {
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->global_quality = 2 * FF_QP2LAMBDA;
  }
  const int code = avcodec_open2(encoder.get(), codec, &options);
  av_dict_free(&options);
  check(code, "opening the encoder");
  return encoder;
}

// Enlarged, and with even sides.
void fill_rgb(const Image& image, std::int64_t scale, AVFrame& out) {
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* row = out.data[0] + static_cast<std::ptrdiff_t>(y) * out.linesize[0];
    const std::int64_t from = std::min(y / scale, image.height - 1);
    for (int x = 0; x < out.width; ++x)
      std::copy_n(image.at(from, std::min(x / scale, image.width - 1)), 3, row + x * 3);
  }
}

Av<SwsContext> open_converter(int width, int height) {
  Av<SwsContext> converter(sws_getContext(width, height, AV_PIX_FMT_RGB24, width, height, AV_PIX_FMT_YUV420P,
                                          SWS_AREA | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr));
  allocated(converter.get());
  const int* table = sws_getCoefficients(SWS_CS_ITU709);
  sws_setColorspaceDetails(converter.get(), table, 1, table, 0, 0, 1 << 16, 1 << 16);
  return converter;
}

}  // namespace

std::string mp4_bytes(std::span<const Image> frames, double fps, std::int64_t scale) {
  REEL_CHECK(!frames.empty() && fps > 0 && scale >= 0);
  av_log_set_level(AV_LOG_QUIET);
  if (scale == 0) scale = viewing_scale(frames[0]);
  const int width = static_cast<int>((frames[0].width * scale + 1) / 2 * 2);
  const int height = static_cast<int>((frames[0].height * scale + 1) / 2 * 2);

  Muxer muxer;
  const AVRational rate = av_d2q(fps, 100000);
  const Av<AVCodecContext> encoder =
      open_encoder(width, height, rate, (muxer.get()->oformat->flags & AVFMT_GLOBALHEADER) != 0);
  AVStream* stream = allocated(avformat_new_stream(muxer.get(), nullptr));
  stream->time_base = encoder->time_base;
  stream->avg_frame_rate = rate;
  check(avcodec_parameters_from_context(stream->codecpar, encoder.get()), "describing the stream");
  check(avformat_write_header(muxer.get(), nullptr), "writing the header");

  const Av<AVPacket> packet(allocated(av_packet_alloc()));
  const auto write_packets = [&](const AVFrame* frame) {  // null: the last ones
    check(avcodec_send_frame(encoder.get(), frame), "encoding");
    for (;;) {
      const int code = avcodec_receive_packet(encoder.get(), packet.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
      check(code, "encoding");
      av_packet_rescale_ts(packet.get(), encoder->time_base, stream->time_base);
      packet->stream_index = stream->index;
      check(av_interleaved_write_frame(muxer.get(), packet.get()), "writing a frame");
    }
  };
  const Av<SwsContext> converter = open_converter(width, height);
  const Av<AVFrame> rgb = make_frame(AV_PIX_FMT_RGB24, width, height);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    REEL_CHECK(frames[i].height == frames[0].height && frames[i].width == frames[0].width);
    fill_rgb(frames[i], scale, *rgb);
    const Av<AVFrame> yuv = make_frame(AV_PIX_FMT_YUV420P, width, height);
    sws_scale(converter.get(), rgb->data, rgb->linesize, 0, height, yuv->data, yuv->linesize);
    yuv->pts = static_cast<std::int64_t>(i);
    write_packets(yuv.get());
  }
  write_packets(nullptr);
  check(av_write_trailer(muxer.get()), "finishing the file");
  return muxer.finish();
}

}  // namespace reel::data

#endif
