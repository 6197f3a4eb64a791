#include "reel/report/animation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reel/base/error.h"

namespace reel::report {

namespace {

// Pixels on the page: four clips in a row beside two columns of real ones on a desk, four on a phone.
constexpr int kLargest = 144, kLargestOnPhone = 84;
constexpr int kLargestInRows = 192;  // five in a row

struct Size {
  int wide, small;  // width on a desk and on a phone
  bool sharp;       // enlarged: pixels shall be seen as such
};

Size size_on_page(const ClipStrip& clip, int largest) {
  const int longest = std::max(clip.width, clip.height);
  const auto fitted = [&](int most) {
    return std::max(1, static_cast<int>(std::int64_t{clip.width} * std::min(most, longest) / longest));
  };
  if (longest > largest) return {fitted(largest), fitted(kLargestOnPhone), false};
  const int enlarged = clip.width * (largest / longest);
  const int on_phone = static_cast<int>(std::int64_t{clip.width} * kLargestOnPhone / longest);
  return {enlarged, std::max(1, std::min(enlarged, on_phone)), true};
}

std::string timing(const ClipStrip& clip) {
  return fmt::format("animation-duration:{:.3f}s;animation-timing-function:steps({})", clip.frames / clip.fps,
                     clip.frames);
}

// `animation` is the style of the strip.
std::string render(const ClipStrip& clip, int largest, const std::string& animation) {
  REEL_CHECK(clip.frames > 0 && clip.width > 0 && clip.height > 0 && std::isfinite(clip.fps) && clip.fps > 0);
  const Size size = size_on_page(clip, largest);
  std::string out = fmt::format(
      "<figure style=\"--wide:{}px;--small:{}px;--frames:{}\"><div class=\"clip{}\" style=\"aspect-ratio:{}/{}\">"
      "<img src=\"data:image/png;base64,{}\" alt=\"{}\" style=\"{}\"/></div>",
      size.wide, size.small, clip.frames, size.sharp ? " sharp" : "", clip.width, clip.height, base64(clip.png),
      escape(clip.caption), animation);
  if (!clip.caption.empty()) out += fmt::format("<figcaption>{}</figcaption>", escape(clip.caption));
  return out + "</figure>\n";
}

std::string render(const ClipRow& row, bool together = false) {
  std::string out = "<div class=\"row\">";
  if (!row.label.empty()) out += fmt::format("<span>{}</span>", escape(row.label));
  out += "<div>\n";
  for (const ClipStrip& clip : row.clips) {
    if (together) {
      out += render(clip, kLargestInRows, clip.frames == 1 ? "transform:none" : "");
    } else {
      out += render(clip, kLargest, clip.frames == 1 ? "animation:none" : timing(clip));
    }
  }
  return out + "</div></div>\n";
}

}  // namespace

Html clip_rows(const std::vector<ClipRow>& rows) {
  const ClipStrip* moving = nullptr;
  std::string body;
  for (const ClipRow& row : rows) {
    for (const ClipStrip& clip : row.clips) {
      if (clip.frames == 1) continue;
      if (moving == nullptr) moving = &clip;
      REEL_CHECK(clip.frames == moving->frames && clip.fps == moving->fps);
    }
    body += render(row, true);
  }
  return {fmt::format("<div class=\"clips rows\" style=\"{}\">\n{}</div>\n",
                      moving != nullptr ? timing(*moving) : "animation:none", body)};
}

Html clip_grid(const std::vector<ClipRow>& sampled, const std::vector<ClipStrip>& real) {
  std::string out = "<div class=\"clips\">\n";
  if (!sampled.empty()) {
    std::size_t label = 0;
    for (const ClipRow& row : sampled) label = std::max(label, row.label.size());
    out += fmt::format("<div class=\"sampled\" style=\"--label:{}ch\">\n<h3>Sampled</h3>\n", label);
    for (const ClipRow& row : sampled) out += render(row);
    out += "</div>\n";
  }
  if (!real.empty()) out += "<div class=\"real\">\n<h3>Real</h3>\n" + render(ClipRow{"", real}) + "</div>\n";
  return {out + "</div>\n"};
}

}  // namespace reel::report
