#include "reel/base/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace reel {
namespace {

double fake_now = 0;

// A stream in memory, and what a terminal would show of it: the lines, each after its last erasure.
class Screen {
 public:
  Screen() : stream_(::open_memstream(&text_, &size_)) { fake_now = 100; }
  ~Screen() {
    std::fclose(stream_);
    std::free(text_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  Progress::Options options(Progress::Mode mode = Progress::Mode::kAlways) const {
    Progress::Options options;
    options.stream = stream_;
    options.mode = mode;
    options.columns = 100;
    options.clock = [] { return fake_now; };
    return options;
  }
  std::string text() const {
    std::fflush(stream_);
    return std::string(text_, size_);
  }
  std::string shown() const {
    std::string shown;
    for (char c : text()) {
      if (c == '\r') shown.resize(shown.rfind('\n') == shown.npos ? 0 : shown.rfind('\n') + 1);
      if (c != '\r') shown += c;
    }
    for (std::size_t at; (at = shown.find("\x1b[K")) != shown.npos;) shown.erase(at, 3);
    return shown;
  }
  std::size_t drawings() const {
    const std::string all = text();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = all.find('\r', at)) != all.npos; ++at) ++count;
    return count;
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

TEST(Progress, IsSilentWhenTheStreamIsNoTerminal) {
  const Screen screen;
  {
    Progress progress("train", 10, screen.options(Progress::Mode::kAutomatic));
    progress.update(5, "loss 1");
    progress.erase();
  }
  EXPECT_EQ(screen.text(), "");
}

TEST(Progress, ShowsPercentageCountRateTimeLeftAndSuffix) {
  const Screen screen;
  Progress progress("train", 2000, screen.options());
  fake_now += 100;
  progress.update(840, "loss 0.0123");
  EXPECT_EQ(screen.shown(), "train  42% [##########              ] 840/2000  8.4/s  left 2:18  loss 0.0123");
}

TEST(Progress, DrawsAtMostTenTimesASecond) {
  const Screen screen;
  Progress progress("train", 1000000, screen.options());
  for (int i = 0; i < 10000; ++i) {
    fake_now += 0.0001;  // one second in all
    progress.update(i);
  }
  EXPECT_GE(screen.drawings(), 9u);
  EXPECT_LE(screen.drawings(), 11u);
}

TEST(Progress, EndsWithTheLastStateAndANewline) {
  const Screen screen;
  {
    Progress progress("train", 10, screen.options());
    for (int i = 1; i <= 10; ++i) progress.update(i, "loss 1");  // all at once: only the first is drawn in time
    progress.finish();
    progress.update(3);
    progress.finish();
  }
  EXPECT_EQ(screen.shown(), "train 100% [########################] 10/10  loss 1\n");
}

TEST(Progress, AnExceptionDoesNotLeaveHalfALine) {
  const Screen screen;
  try {
    Progress progress("train", 10, screen.options());
    progress.update(1);
    throw std::runtime_error("lost");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(screen.shown().ends_with("1/10\n"));
}

TEST(Progress, ErasingMakesRoomForOtherOutput) {
  const Screen screen;
  const Progress::Options options = screen.options();
  Progress progress("train", 10, options);
  progress.update(1);
  progress.erase();
  std::fputs("a message\n", options.stream);
  progress.update(2);  // at once, though no time has passed
  progress.finish();
  EXPECT_EQ(screen.shown(), "a message\ntrain  20% [####                    ] 2/10\n");
}

TEST(Progress, LongLinesAreCutAndControlCharactersBlanked) {
  const Screen screen;
  Progress::Options options = screen.options();
  options.columns = 20;
  Progress progress("l\xc3\xa4nge", 0, options);
  progress.update(5, "a\nb\x1b[31m and much more text");
  EXPECT_EQ(screen.shown(), "l\xc3\xa4nge 5  a b [31m a");  // 19 characters
}

TEST(Progress, ResumedStepsDoNotCountForTheRate) {
  const Screen screen;
  Progress::Options options = screen.options();
  options.first = 900;
  Progress progress("train", 1000, options);
  fake_now += 100;
  progress.update(910);
  EXPECT_NE(screen.shown().find("910/1000  10.0 s each  left 15:00"), std::string::npos) << screen.shown();
}

TEST(Progress, DurationsReadLikeAClock) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(374.4), "6:14");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(86400 * 30), "30 days");
  EXPECT_EQ(format_duration(-1), "?");
}

}  // namespace
}  // namespace reel
