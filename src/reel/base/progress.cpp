#include "reel/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "reel/base/sized.h"

namespace reel {

namespace {

constexpr double kInterval = 0.1;  // seconds between drawings
constexpr int kBar = 24;
constexpr std::string_view kEraseLine = "\r\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

int columns_of(std::FILE* stream) {
  struct winsize size = {};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// One line without control characters (a suffix may hold a file name), at most `width` characters.
std::string one_line(std::string_view text, std::size_t width) {
  std::string line;
  std::size_t characters = 0;
  for (char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (begins && characters++ == width) break;
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return line;
}

std::string format_rate(double rate) {
  if (rate >= 100) return fmt::format("{:.0f}/s", rate);
  if (rate >= 1) return fmt::format("{:.1f}/s", rate);
  return fmt::format("{:.1f} s each", 1 / rate);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds >= 86400 * 10) return fmt::format("{:.0f} days", seconds / 86400);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(std::string label, std::int64_t total) : Progress(std::move(label), total, Options()) {}

Progress::Progress(std::string label, std::int64_t total, const Options& options)
    : label_(std::move(label)),
      total_(total),
      done_(options.first),
      options_(options),
      active_(options.mode == Mode::kAlways || (options.mode == Mode::kAutomatic && is_terminal(options.stream))) {
  if (options_.clock == nullptr) options_.clock = steady_seconds;
  if (active_) begin_ = next_ = options_.clock();
}

Progress::~Progress() { finish(); }

void Progress::update(std::int64_t done, std::string_view suffix) {
  if (!active_) return;
  done_ = done;
  suffix_ = suffix;
  const double now = options_.clock();
  if (now < next_) return;
  next_ = now + kInterval;
  draw();
}

void Progress::erase() {
  if (!active_ || !drawn_) return;
  std::fwrite(kEraseLine.data(), 1, kEraseLine.size(), options_.stream);
  std::fflush(options_.stream);
  drawn_ = false;
  next_ = 0;
}

void Progress::finish() {
  if (!active_) return;
  draw();
  std::fputc('\n', options_.stream);
  std::fflush(options_.stream);
  active_ = false;
}

void Progress::draw() {
  std::string line = label_;
  const double elapsed = options_.clock() - begin_;
  const auto fresh = static_cast<double>(done_ - options_.first);
  if (total_ > 0) {
    const double share = std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
    const auto filled = sized(share * kBar);
    line += fmt::format(" {:3.0f}% [{}{}] {}/{}", std::floor(share * 100), std::string(filled, '#'),
                        std::string(kBar - filled, ' '), done_, total_);
  } else {
    line += fmt::format(" {}", done_);
  }
  if (fresh > 0 && elapsed > 0) {
    line += "  " + format_rate(fresh / elapsed);
    const auto left = static_cast<double>(total_ - done_);
    if (left > 0) line += "  left " + format_duration(left * elapsed / fresh);
  }
  if (!suffix_.empty()) line += "  " + suffix_;
  const int columns = options_.columns > 0 ? options_.columns : columns_of(options_.stream);
  // One column stays free: a terminal that wraps at its last column would leave a line behind at each drawing.
  const std::string text = std::string(kEraseLine) + one_line(line, sized(std::max(columns - 1, 1)));
  std::fwrite(text.data(), 1, text.size(), options_.stream);
  std::fflush(options_.stream);
  drawn_ = true;
}

}  // namespace reel
