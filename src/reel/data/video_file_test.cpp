#include "reel/data/video_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/base/random.h"
#include "reel/base/testing.h"
#include "reel/data/testing.h"

namespace reel::data {
namespace {

class VideoFiles : public Files {};

// A raw video, exact to the bit: 4:2:0, the luma of frame i is 16 + 8 i, no colour.
std::string y4m(int count, int height, int width, const std::string& parameters = "F25:1 A1:1") {
  std::string text = fmt::format("YUV4MPEG2 W{} H{} {} C420\n", width, height, parameters);
  for (int i = 0; i < count; ++i) {
    text += "FRAME\n" + std::string(static_cast<std::size_t>(height * width), static_cast<char>(16 + 8 * i));
    text += std::string(static_cast<std::size_t>((height + 1) / 2 * ((width + 1) / 2) * 2), '\x80');
  }
  return text;
}

// The number of such a frame: black is 16 and white 235 in a video, 0 and 255 in a picture.
std::vector<std::int64_t> lumas(const std::vector<Image>& frames) {
  std::vector<std::int64_t> numbers;
  for (const Image& frame : frames) {
    numbers.push_back(std::lround(frame.at(frame.height / 2, frame.width / 2)[0] * 219.0 / 255 / 8));
  }
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

TEST_F(VideoFiles, WithoutFfmpegTheErrorSaysWhatToInstall) {
  if (video_supported()) GTEST_SKIP() << "this build has FFmpeg";
  EXPECT_NE(message_of([&] { read_video(path("a.mp4")); }).find("libavformat-dev"), std::string::npos);
  EXPECT_NE(message_of([&] { write_mp4(path("a.mp4"), std::vector{Image(8, 8)}, 8); }).find("FFmpeg was left out"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("a.mp4")));
}

TEST_F(VideoFiles, Mp4KeepsNumberRateAndColours) {
  REEL_NEEDS_VIDEO();
  // Large flat areas: what is lost is rounding in YUV (up to 2) and quantisation at crf 14 (up to about 4).
  const std::uint8_t colors[4][3] = {{230, 40, 50}, {40, 200, 90}, {50, 130, 250}, {240, 220, 60}};
  std::vector<Image> frames;
  for (int i = 0; i < 10; ++i) {
    Image frame(32, 48);
    for (std::int64_t y = 0; y < 32; ++y) {
      for (std::int64_t x = 0; x < 48; ++x) std::copy_n(colors[(x / 24 + y / 16 * 2 + i) % 4], 3, frame.at(y, x));
    }
    frames.push_back(frame);
  }
  write_mp4(path("a.mp4"), frames, 12, 4);
  const Video video = read_video(path("a.mp4"));
  ASSERT_EQ(video.frames.size(), 10u);
  EXPECT_NEAR(video.fps, 12, 1e-3);
  EXPECT_EQ(video.frames[0].height, 128);
  EXPECT_EQ(video.frames[0].width, 192);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    for (std::int64_t y = 8; y < 32; y += 16) {
      for (std::int64_t x = 12; x < 48; x += 24) {
        for (int c = 0; c < 3; ++c) {
          EXPECT_NEAR(video.frames[i].at(4 * y, 4 * x)[c], frames[i].at(y, x)[c], 6) << i << ' ' << y << ' ' << x;
        }
      }
    }
  }
}

TEST_F(VideoFiles, OddSizesArePaddedAndSmallClipsEnlarged) {
  REEL_NEEDS_VIDEO();
  write_mp4(path("a.mp4"), numbered_frames(3, 15, 17), 8, 1);
  const Video odd = read_video(path("a.mp4"));
  EXPECT_EQ(odd.frames[0].height, 16);
  EXPECT_EQ(odd.frames[0].width, 18);
  EXPECT_EQ(numbers_of(odd.frames), (Numbers{0, 1, 2}));
  write_mp4(path("a.mp4"), numbered_frames(1, 32, 40), 8);
  EXPECT_EQ(read_video(path("a.mp4")).frames[0].width, 320);
}

TEST_F(VideoFiles, TheSameFramesGiveTheSameBytes) {
  REEL_NEEDS_VIDEO();
  const auto frames = numbered_frames(5, 32, 32);
  EXPECT_EQ(mp4_bytes(frames, 8), mp4_bytes(frames, 8));
}

TEST_F(VideoFiles, AFailedWriteLeavesNothing) {
  REEL_NEEDS_VIDEO();
  EXPECT_THROW(write_mp4(path("no/such/a.mp4"), numbered_frames(2, 16, 16), 8), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(VideoFiles, StrideAndRateChooseTheFrames) {
  REEL_NEEDS_VIDEO();
  write_file_atomically(path("a.y4m"), y4m(20, 8, 8));
  const auto taken = [&](std::int64_t frames, double fps, std::int64_t stride) {
    return lumas(read_video(path("a.y4m"), {.frames = frames, .fps = fps, .stride = stride}).frames);
  };
  EXPECT_EQ(lumas(read_video(path("a.y4m")).frames).size(), 20u);
  EXPECT_EQ(taken(4, 0, 1), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(taken(4, 0, 5), (Numbers{0, 5, 10, 15}));
  EXPECT_EQ(taken(4, 5, 1), (Numbers{0, 5, 10, 15}));
  EXPECT_EQ(taken(3, 12.5, 4), (Numbers{0, 8, 16}));
  EXPECT_EQ(taken(6, 75, 1), (Numbers{0, 0, 1, 1, 1, 2}));
  EXPECT_NEAR(read_video(path("a.y4m"), {.frames = 2, .fps = 10, .stride = 2}).fps, 5, 1e-9);
}

TEST_F(VideoFiles, EveryStartIsPossibleAndNoneTooLate) {
  REEL_NEEDS_VIDEO();
  write_mp4(path("a.mp4"), numbered_frames(28, 16, 16), 10, 2);  // key frames at 0, 12 and 24, frames that refer ahead
  for (int first = 0; first <= 28 - 7; ++first) {
    const Excerpt cut{.frames = 4, .stride = 2, .start = (first + 0.5) / 22};
    EXPECT_EQ(numbers_of(read_video(path("a.mp4"), cut).frames), (Numbers{first, first + 2, first + 4, first + 6}));
  }
  EXPECT_EQ(numbers_of(read_video(path("a.mp4"), {.frames = 28, .start = 0.99}).frames).front(), 0);
}

TEST_F(VideoFiles, PicturesAreScaledToCoverAndCutToTheCentre) {
  REEL_NEEDS_VIDEO();
  Image wide(64, 128);  // black, a white square in the middle
  for (std::int64_t y = 0; y < 64; ++y) std::fill_n(wide.at(y, 32), 64 * 3, std::uint8_t{255});
  write_mp4(path("a.mp4"), std::vector{wide, wide}, 8, 1);
  const Image square = read_video(path("a.mp4"), {.frames = 1, .height = 32, .width = 32}).frames[0];
  EXPECT_EQ(square.rgb.size(), 32u * 32 * 3);
  for (const auto& [y, x] : {std::pair{2, 2}, {16, 16}, {29, 29}}) EXPECT_GT(square.at(y, x)[0], 240);
  const Image larger = read_video(path("a.mp4"), {.frames = 1, .height = 100, .width = 200}).frames[0];
  EXPECT_LT(larger.at(50, 20)[0], 15);
  EXPECT_GT(larger.at(50, 100)[0], 240);
  EXPECT_LT(larger.at(50, 180)[0], 15);
}

TEST_F(VideoFiles, PixelsThatAreNotSquareBecomeSo) {
  REEL_NEEDS_VIDEO();
  write_file_atomically(path("a.y4m"), y4m(2, 8, 8, "F25:1 A2:1"));
  const Image image = read_video(path("a.y4m")).frames[0];
  EXPECT_EQ(image.width, 16);
  EXPECT_EQ(image.height, 8);
}

// Phones film sideways and write into the file how to turn it: a matrix in the box `tkhd`, 40 bytes behind its name.
TEST_F(VideoFiles, TurnedVideosAreSetUpright) {
  REEL_NEEDS_VIDEO();
  Image image(32, 64, 20);
  for (std::int64_t y = 0; y < 16; ++y) std::fill_n(image.at(y, 0), 16 * 3, std::uint8_t{230});  // top left is bright
  const std::string bytes = mp4_bytes(std::vector{image, image}, 8, 1);
  const std::string one("\0\1\0\0", 4), minus_one("\xff\xff\0\0", 4), zero(4, '\0');
  struct Turn {
    std::string a, b, c, d;  // of the matrix: x' = a x + c y, y' = b x + d y, y down
    std::int64_t height, width, y, x;
  };
  for (const Turn& turn : {Turn{zero, one, minus_one, zero, 64, 32, 4, 28},            // a quarter clockwise: top right
                           Turn{zero, minus_one, one, zero, 64, 32, 60, 4},            // counter-clockwise: bottom left
                           Turn{minus_one, zero, zero, minus_one, 32, 64, 28, 60}}) {  // half a turn
    std::string turned = bytes;
    const std::size_t matrix = turned.find("tkhd") + 4 + 40;
    turned.replace(matrix, 8, turn.a + turn.b);
    turned.replace(matrix + 12, 8, turn.c + turn.d);
    write_file_atomically(path("a.mp4"), turned);
    const Image upright = read_video(path("a.mp4")).frames[0];
    EXPECT_EQ(upright.height, turn.height);
    EXPECT_EQ(upright.width, turn.width);
    EXPECT_GT(upright.at(turn.y, turn.x)[0], 200);
    EXPECT_LT(upright.at(turn.height / 2, turn.width / 2)[0], 50);
    const Image cut = read_video(path("a.mp4"), {.frames = 1, .height = turn.height, .width = turn.width}).frames[0];
    EXPECT_EQ(cut, upright);
  }
}

TEST_F(VideoFiles, BrokenFilesAreErrorsThatNameFileAndReason) {
  REEL_NEEDS_VIDEO();
  const std::string good = mp4_bytes(numbered_frames(10, 32, 32), 8, 1);
  std::string garbage(5000, '\0'), damaged = good;
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<char>(Random(1).bits(i));
  for (std::size_t i = 60; i < damaged.find("moov") - 8; ++i) damaged[i] = garbage[i];
  write_file_atomically(path("empty.mp4"), "");
  write_file_atomically(path("garbage.mp4"), garbage);
  write_file_atomically(path("half.mp4"), good.substr(0, good.size() / 2));
  write_file_atomically(path("head.mp4"), good.substr(0, 40));
  write_file_atomically(path("damaged.mp4"), damaged);
  write_file_atomically(path("text.mp4"), "this is not a video\n");
  write_file_atomically(path("cut.y4m"), y4m(10, 8, 8).substr(0, 700));
  for (const char* name :
       {"empty.mp4", "garbage.mp4", "half.mp4", "head.mp4", "damaged.mp4", "text.mp4", "cut.y4m", "no.mp4"}) {
    const std::string message = message_of([&] { read_video(path(name), {.frames = 8}); });
    EXPECT_TRUE(message.starts_with(path(name) + ": ")) << message;
    EXPECT_NE(message, "no error") << name;
  }
  EXPECT_NE(message_of([&] { read_video(path("no.mp4")); }).find("No such file"), std::string::npos);
  write_file_atomically(path("sound.wav"), std::string("RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f"
                                                       "\0\0\1\0\x8\0data\x8\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80",
                                                       52));
  EXPECT_NE(message_of([&] { read_video(path("sound.wav")); }).find("there is no video in it"), std::string::npos);
  EXPECT_THROW(read_video(path()), Error);  // a folder
}

TEST_F(VideoFiles, TooShortFilesSayHowShort) {
  REEL_NEEDS_VIDEO();
  write_mp4(path("a.mp4"), numbered_frames(5, 16, 16), 10, 1);
  EXPECT_EQ(numbers_of(read_video(path("a.mp4"), {.frames = 5}).frames), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_NE(message_of([&] {
              read_video(path("a.mp4"), {.frames = 6});
            }).find("a.mp4: it lasts 0.50 s, 6 frames at 10 a second need 0.60 s"),
            std::string::npos);
}

// Twelve numbered frames at 10 a second; the header says 6 s, and Matroska does not say how many frames there are.
TEST_F(VideoFiles, AHeaderThatPromisesTooMuchIsNotBelieved) {
  REEL_NEEDS_VIDEO();
  const std::string file = REEL_SOURCE_DIR "/tests/data/long_header.mkv";
  EXPECT_EQ(numbers_of(read_video(file, {.frames = 4, .start = 0}).frames), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers_of(read_video(file, {.frames = 4, .start = 0.5}).frames), (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(numbers_of(read_video(file, {.frames = 4, .start = 0.99}).frames), (Numbers{8, 9, 10, 11}));
  EXPECT_NE(message_of([&] { read_video(file, {.frames = 13}); }).find("it lasts 1.20 s"), std::string::npos);
}

// The last frame reaches beyond the end of the file: FFmpeg hands out what there is of it.
TEST_F(VideoFiles, HalfAFrameIsNotAFrame) {
  REEL_NEEDS_VIDEO();
  std::string bytes = mp4_bytes(numbered_frames(10, 32, 32), 8, 1);
  const std::size_t sizes = bytes.find("stsz") + 4 + 12;  // behind version, common size and count: four bytes a frame
  bytes[sizes + 9 * 4 + 1] = 1;                           // 65536 more
  write_file_atomically(path("a.mp4"), bytes);
  EXPECT_EQ(read_video(path("a.mp4"), {.frames = 4}).frames.size(), 4u);
  EXPECT_NE(message_of([&] { read_video(path("a.mp4"), {.frames = 10}); }).find("it is cut off or damaged after"),
            std::string::npos);
}

TEST_F(VideoFiles, NamesAreNamesWhateverTheyLookLike) {
  REEL_NEEDS_VIDEO();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  write_mp4("http:b %03d.mp4", numbered_frames(2, 16, 16), 10, 1);
  EXPECT_EQ(message_of([&] { EXPECT_EQ(read_video("http:b %03d.mp4").frames.size(), 2u); }), "no error");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace reel::data
