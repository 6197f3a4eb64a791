#include "reel/data/gif.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/file.h"

namespace reel::data {

namespace {

constexpr int kPaletteColors = 256;
constexpr int kBits = 6;  // of each channel tell colours apart
constexpr std::size_t kBins = std::size_t{1} << (3 * kBits);

std::size_t bin_of(const std::uint8_t* rgb) {
  return sized(rgb[0] >> (8 - kBits)) << (2 * kBits) | sized(rgb[1] >> (8 - kBits)) << kBits |
         sized(rgb[2] >> (8 - kBits));
}

struct Palette {
  std::array<std::uint8_t, kPaletteColors * 3> rgb{};
  std::vector<std::uint8_t> color_of = std::vector<std::uint8_t>(kBins);
};

struct Bin {
  std::size_t number = 0;
  std::int64_t count = 0;
  std::array<std::int64_t, 3> sum{};
  int level(int channel) const { return static_cast<int>(number >> ((2 - channel) * kBits)) & ((1 << kBits) - 1); }
};

using Box = std::span<Bin>;

struct WidestChannel {
  int channel = 0;
  int range = 0;  // 0: one colour, nothing to cut
};

WidestChannel widest(Box box) {
  WidestChannel cut;
  for (int channel = 0; channel < 3; ++channel) {
    const auto [least, most] = std::minmax_element(
        box.begin(), box.end(), [&](const Bin& a, const Bin& b) { return a.level(channel) < b.level(channel); });
    const int range = most->level(channel) - least->level(channel);
    if (range > cut.range) cut = {channel, range};
  }
  return cut;
}

std::int64_t pixels_in(Box box) {
  return std::accumulate(box.begin(), box.end(), std::int64_t{0}, [](auto sum, const Bin& b) { return sum + b.count; });
}

// Two boxes with about half of the pixels each, neither empty.
std::array<Box, 2> cut_at_median(Box box, int channel) {
  std::sort(box.begin(), box.end(), [&](const Bin& a, const Bin& b) {
    return std::pair(a.level(channel), a.number) < std::pair(b.level(channel), b.number);
  });
  const std::int64_t half = pixels_in(box) / 2;
  std::int64_t below = box[0].count;
  std::size_t at = 1;
  while (at + 1 < box.size() && below + box[at].count <= half) below += box[at++].count;
  return {box.first(at), box.subspan(at)};
}

// Median cut (Heckbert 1982); the next box to cut is the one with the most pixels times the widest range.
Palette choose_palette(std::span<const Image> frames) {
  std::vector<Bin> bins(kBins);
  for (const Image& frame : frames) {
    for (std::size_t i = 0; i < frame.rgb.size(); i += 3) {
      Bin& bin = bins[bin_of(&frame.rgb[i])];
      ++bin.count;
      for (std::size_t c = 0; c < 3; ++c) bin.sum[c] += frame.rgb[i + c];
    }
  }
  for (std::size_t i = 0; i < kBins; ++i) bins[i].number = i;
  std::erase_if(bins, [](const Bin& bin) { return bin.count == 0; });

  struct Entry {
    Box box;
    WidestChannel cut;
    std::int64_t weight;
  };
  const auto entry = [](Box box) {
    const WidestChannel cut = widest(box);
    return Entry{box, cut, cut.range * pixels_in(box)};
  };
  std::vector<Entry> entries = {entry(bins)};
  while (entries.size() < kPaletteColors) {
    const auto next = std::max_element(entries.begin(), entries.end(),
                                       [](const Entry& a, const Entry& b) { return a.weight < b.weight; });
    if (next->weight == 0) break;
    const auto halves = cut_at_median(next->box, next->cut.channel);
    *next = entry(halves[0]);
    entries.push_back(entry(halves[1]));
  }
  Palette palette;
  for (std::size_t color = 0; color < entries.size(); ++color) {
    const std::int64_t count = pixels_in(entries[color].box);
    for (std::size_t c = 0; c < 3; ++c) {
      std::int64_t sum = 0;
      for (const Bin& bin : entries[color].box) sum += bin.sum[c];
      palette.rgb[color * 3 + c] = static_cast<std::uint8_t>((sum + count / 2) / count);
    }
    for (const Bin& bin : entries[color].box) palette.color_of[bin.number] = static_cast<std::uint8_t>(color);
  }
  return palette;
}

void put16(std::string& out, std::int64_t value) {
  out += static_cast<char>(value & 255);
  out += static_cast<char>(value >> 8 & 255);
}

// Codes of 9 to 12 bits, lowest bit first, in blocks of up to 255 bytes that begin with their length.
class CodeWriter {
 public:
  explicit CodeWriter(std::string& out) : out_(out) {}
  void put(int code, int bits) {
    pending_ |= static_cast<std::uint32_t>(code) << held_;
    for (held_ += bits; held_ >= 8; held_ -= 8, pending_ >>= 8) byte(static_cast<char>(pending_ & 255));
  }
  void finish() {
    if (held_ > 0) byte(static_cast<char>(pending_ & 255));
    flush();
    out_ += '\0';
  }

 private:
  void byte(char value) {
    block_ += value;
    if (block_.size() == 255) flush();
  }
  void flush() {
    if (block_.empty()) return;
    out_ += static_cast<char>(block_.size());
    out_ += block_;
    block_.clear();
  }
  std::string& out_;
  std::string block_;
  std::uint32_t pending_ = 0;
  int held_ = 0;
};

// LZW as GIF has it: codes 0-255 are colours, 256 clears the table, 257 ends; a table of 4096 codes starts anew.
void put_compressed(std::string& out, std::span<const std::uint8_t> indices) {
  constexpr int kClear = 256, kEnd = 257, kMost = 4096;
  std::vector<std::int16_t> next(kMost * kPaletteColors, -1);  // [code][colour]: the code for both
  CodeWriter writer(out);
  int bits = 9, used = kEnd + 1;
  writer.put(kClear, bits);
  int code = indices[0];
  for (const std::uint8_t color : indices.subspan(1)) {
    std::int16_t& longer = next[sized(code * kPaletteColors + color)];
    if (longer >= 0) {
      code = longer;
      continue;
    }
    writer.put(code, bits);
    if (used < kMost) {
      longer = static_cast<std::int16_t>(used);
      if (used++ == 1 << bits) ++bits;
    } else {
      writer.put(kClear, bits);
      std::fill(next.begin(), next.end(), std::int16_t{-1});
      bits = 9, used = kEnd + 1;
    }
    code = color;
  }
  writer.put(code, bits);
  writer.put(kEnd, bits);
  writer.finish();
}

}  // namespace

std::string gif_bytes(std::span<const Image> frames, double fps, std::int64_t scale) {
  REEL_CHECK(!frames.empty() && fps > 0 && scale >= 0);
  if (scale == 0) scale = viewing_scale(frames[0]);
  const std::int64_t height = frames[0].height * scale, width = frames[0].width * scale;
  REEL_CHECK(height > 0 && height < 65536 && width > 0 && width < 65536);
  const Palette palette = choose_palette(frames);

  std::string out = "GIF89a";
  put16(out, width);
  put16(out, height);
  out += std::string("\xf7\0\0", 3);  // a table of 256 colours of 8 bits; square pixels
  out.append(reinterpret_cast<const char*>(palette.rgb.data()), palette.rgb.size());
  out += std::string("\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0", 19);  // plays in a loop

  const double delay = std::max(2.0, 100 / fps);  // in 1/100 s
  std::vector<std::uint8_t> indices(sized(height * width));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    REEL_CHECK(frames[i].height == frames[0].height && frames[i].width == frames[0].width);
    const double begin = std::round(delay * static_cast<double>(i)),
                 end = std::round(delay * static_cast<double>(i + 1));
    out += std::string("\x21\xf9\x04\x04", 4);  // the frame stays until the next covers it
    put16(out, static_cast<std::int64_t>(std::min(end - begin, 65535.0)));
    out += std::string("\0\0\x2c\0\0\0\0", 7);
    put16(out, width);
    put16(out, height);
    out += std::string("\0\x08", 2);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        indices[sized(y * width + x)] = palette.color_of[bin_of(frames[i].at(y / scale, x / scale))];
      }
    }
    put_compressed(out, indices);
  }
  return out + '\x3b';
}

void write_gif(const std::string& path, std::span<const Image> frames, double fps, std::int64_t scale) {
  write_file_atomically(path, gif_bytes(frames, fps, scale));
}

}  // namespace reel::data
