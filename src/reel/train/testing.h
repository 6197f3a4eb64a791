// What the tests of training share: runs of a second, their folders, processes that may be killed. For tests only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"
#include "reel/kernels/testing.h"
#include "reel/model/testing.h"
#include "reel/report/metrics.h"
#include "reel/train/trainer.h"

namespace reel::train::testing {

using kernels::testing::expect_close;
using kernels::testing::expect_same_bits;
using model::testing::full_attention;
using model::testing::kFamilies;

// A folder of its own for each test, gone afterwards.
class Files : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

 private:
  TempFolder folder_;
};

// A run file of which a step takes a millisecond: clips of two frames are eight tokens, the model is one block (of
// stdit3 and latte a pair) of width 16. `more` overrides: "train.steps=3".
inline RunConfig small_run(const std::string& family, const std::vector<std::string>& more = {}) {
  Toml toml = Toml::parse(R"(
[model]
layers = 1
heads = 2
head_dim = 8
patch = [1, 4, 4]
[video]
frames = 2
height = 8
width = 8
[data]
validation = 3
[train]
steps = 6
batch = 2
warmup = 2
ema = 0.9
threads = 1
samples = 1
sample_steps = 2
)",
                          "small.toml");
  toml.set("model.family=" + family);
  if (family == "latte") toml.set("model.sigma=true");
  for (const std::string& each : more) toml.set(each);
  return parse_run(toml);
}

// The data of a run, as the run reads it.
struct Clips {
  // `first` and `count`: the clips of each batch that one of many ranks reads.
  explicit Clips(const RunConfig& c, std::int64_t first = 0, std::int64_t count = -1)
      : source(data::make_source(c.data, format_of(c))),
        loader(*source, {c.train.batch, static_cast<std::uint64_t>(c.train.seed), 0, first, count}) {}
  data::Batch operator()() { return loader.next(); }

  std::unique_ptr<data::Source> source;
  data::Loader loader;
};

// Moves every trained weight a little, so that none is zero: a new model predicts 0 and has few gradients.
inline void shake(model::Denoiser& model) {
  std::uint64_t stream = 0;
  for (tape::Parameter& p : model.parameters().all()) {
    if (!p.trained) continue;
    Buffer<float> noise(p.values().size());
    Random(3, ++stream).fill_normal(noise);
    for (std::size_t i = 0; i < noise.size(); ++i) p.value[i] += 0.1f * noise[i];
  }
}

// A run after some steps, begun with weights that are not special.
struct Trained {
  Trained(const RunConfig& c, int steps, int count = 1) : threads(count), trainer(c, threads), clips(c) {
    shake(trainer.model());
    for (int i = 0; i < steps; ++i) step();
  }
  StepReport step() {
    reports.push_back(trainer.step([&] { return clips(); }));
    return reports.back();
  }
  std::span<float> values() { return trainer.model().parameters().trained_values(); }

  Threads threads;
  Trainer trainer;
  Clips clips;
  std::vector<StepReport> reports;
};

// work() in a process of its own, with its output in a file; it may be killed at any moment. An Error is printed and
// ends it with 2, as the program does. No other thread may be running when it begins.
class Process {
 public:
  Process(const std::string& log, const std::function<int()>& work) {
    std::fflush(nullptr);
    id_ = ::fork();
    if (id_ != 0) return;
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    int result = 2;
    try {
      result = work();
    } catch (const Error& error) {
      fmt::print(stderr, "{} | {}\n", error.what(), error.hint());
    }
    std::fflush(nullptr);
    ::_exit(result);
  }
  ~Process() {
    send(SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const {
    if (id_ > 0) ::kill(id_, signal);
  }
  // What it exited with, or minus the signal that ended it.
  int wait() {
    if (id_ <= 0) return result_;
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return result_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Until arrived() or the end of the process, looking every millisecond.
  bool wait_until(const std::function<bool()>& arrived) const {
    while (!arrived()) {
      siginfo_t info = {};
      const bool ended = ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
      if (ended && info.si_pid != 0) return arrived();
      ::usleep(1000);
    }
    return true;
  }

 private:
  pid_t id_ = 0;
  int result_ = 0;
};

// The last step that a run has written down, -1 where it has none.
inline std::int64_t last_step(const std::string& run) {
  if (!std::filesystem::exists(run + "/metrics.jsonl")) return -1;
  const auto rows = report::read_metrics(run + "/metrics.jsonl").rows;
  return rows.empty() ? -1 : rows.back().step;
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }
inline std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace reel::train::testing
