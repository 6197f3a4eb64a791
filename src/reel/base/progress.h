// A progress bar for work of a known number of steps:
//   train  42% [#####       ] 840/2000  3.1/s  left 6:14  loss 0.0123
//
// Silent when the stream is not a terminal (a log file, a pipe), so callers need not ask. On a terminal one line is
// redrawn at most ten times a second, each time with a single write, cut to the width of the window. The line ends with
// a newline when the bar is finished or destroyed, by an exception too.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace reel {

class Progress {
 public:
  enum class Mode { kAutomatic, kAlways, kNever };
  struct Options {
    std::FILE* stream = stderr;
    Mode mode = Mode::kAutomatic;
    std::int64_t first = 0;       // steps done before, when a run is resumed: they do not count for the rate
    int columns = 0;              // 0: ask the terminal
    double (*clock)() = nullptr;  // seconds; null: the steady clock
  };

  // total 0: unknown, no percentage and no time left.
  Progress(std::string label, std::int64_t total);
  Progress(std::string label, std::int64_t total, const Options& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` steps of all are done; the suffix is shown at the end of the line. Cheap when nothing is drawn.
  void update(std::int64_t done, std::string_view suffix = {});

  void erase();   // clears the line so that something else can be printed; the next update draws it again at once
  void finish();  // draws the last state and ends the line; after it nothing is drawn

 private:
  void draw();

  std::string label_, suffix_;
  std::int64_t total_, done_;
  Options options_;
  bool active_;
  bool drawn_ = false;  // there is a line to end
  double begin_ = 0, next_ = 0;
};

// "6:14", "1:02:03", "12 days": the way the bar writes times.
std::string format_duration(double seconds);

}  // namespace reel
