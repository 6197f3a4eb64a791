// What `reel train` prints, and how Ctrl-C reaches the run.
//
// The first Ctrl-C or SIGTERM asks the run to stop, the second one ends the process as usual. A terminal gets a
// progress bar; a log gets a line at the first and last step and every ten seconds.
#pragma once

#include <csignal>
#include <mutex>
#include <optional>
#include <string>

#include "reel/base/progress.h"
#include "reel/base/timer.h"
#include "reel/train/listener.h"

namespace reel::app {

// One at a time in a process: signals have no other owner.
class TrainListener : public train::Listener {
 public:
  TrainListener();
  ~TrainListener() override;
  TrainListener(const TrainListener&) = delete;
  TrainListener& operator=(const TrainListener&) = delete;

  void started(const train::Started& run) override;
  void begun(std::int64_t step) override;
  void stepped(const train::Stepped& step) override;
  void skipped(const train::Skipped& step) override;
  void notice(const std::string& message) override;
  void ended(const train::Ended& run) override;
  bool stop() override;

 private:
  struct sigaction old_int_, old_term_;
  std::int64_t steps_ = 0;
  std::mutex mutex_;  // of the bar: notices come from several threads
  std::optional<Progress> bar_;
  Timer log_;
};

}  // namespace reel::app
