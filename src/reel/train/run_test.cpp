#include "reel/train/run.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cmath>

#include "reel/attention/testing.h"
#include "reel/base/testing.h"
#include "reel/data/latents.h"
#include "reel/report/metrics.h"
#include "reel/train/checkpoint.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

namespace fs = std::filesystem;
using testing::last_step;
using testing::Process;
using testing::small_run;

constexpr int kStopped = 10;

// Writes the story down, a line for each thing it is told, and stops the run after `stop_after` steps.
class Told : public Listener {
 public:
  explicit Told(std::int64_t stop_after = -1) : stop_after_(stop_after) {}
  void started(const Started& run) override {
    tell("started {} steps, {} tokens, {} ranks", run.config.train.steps, run.need.tokens, run.ranks);
  }
  void begun(std::int64_t step) override { tell("begun {}", last_ = step); }
  void stepped(const Stepped& s) override { tell("step {} of {}", last_ = s.step, s.steps); }
  void skipped(const Skipped& s) override { tell("skipped {}, {} in a row", s.step, s.in_row); }
  void notice(const std::string& message) override { tell("notice {}", message); }
  void ended(const Ended& run) override { tell("{} {} of {}", run.done ? "done" : "stopped", run.step, run.steps); }
  bool stop() override { return last_ == stop_after_; }

  std::string story;

 private:
  template <class... Of>
  void tell(fmt::format_string<Of...> text, Of&&... of) {
    const std::string line = fmt::format(text, std::forward<Of>(of)...) + "\n";
    story += line;
    fmt::print("{}", line);
    std::fflush(stdout);
  }
  std::int64_t stop_after_, last_ = -1;
};

std::string latest(const std::string& run) { return fs::path(latest_checkpoint(run)).filename(); }

// Both runs came to the same end: weights, their average, moments, samples, and what was measured on the way, each step
// once.
void expect_same_end(const std::string& a, const std::string& b) {
  EXPECT_EQ(latest(a), latest(b));
  for (const char* file : {"diffusion_pytorch_model", "ema", "optimizer"}) {
    const std::string name = fmt::format("/latest/{}.safetensors", file);
    EXPECT_TRUE(read_file(a + name) == read_file(b + name)) << name;
  }
  for (const auto& entry : fs::directory_iterator(a + "/samples")) {
    EXPECT_TRUE(read_file(entry.path()) == read_file(b + "/samples/" + entry.path().filename().string())) << entry;
  }
  const report::Metrics of_a = report::read_metrics(a + "/metrics.jsonl"),
                        of_b = report::read_metrics(b + "/metrics.jsonl");
  ASSERT_EQ(of_a.rows.size(), of_b.rows.size());
  EXPECT_EQ(of_b.skipped, 0u) << "torn lines";
  for (std::size_t i = 0; i < of_a.rows.size(); ++i) {
    EXPECT_EQ(of_b.rows[i].step, static_cast<std::int64_t>(i));  // from 0, the first validation
    for (const char* name : {"loss", "validation_loss", "learning_rate", "gradient_norm"}) {
      const double x = of_a.rows[i].value(name), y = of_b.rows[i].value(name);
      EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << name << " of step " << i << ": " << x << ", " << y;
    }
  }
  const std::string text = read_file(b + "/metrics.jsonl");
  std::size_t losses = 0;
  for (std::size_t at = 0; (at = text.find("\"loss\"", at)) != text.npos; ++at) ++losses;
  EXPECT_EQ(losses + 1, of_b.rows.size());
}

class Training : public testing::Files {
 protected:
  static RunConfig config(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"train.steps=24", "train.checkpoint_every=2", "train.validate_every=5",
                                    "train.sample_every=9"};
    all.insert(all.end(), more.begin(), more.end());
    return small_run("wan", all);
  }
  // A run in a process of its own.
  std::unique_ptr<Process> start(const RunConfig& c, const std::string& name, bool resume,
                                 std::int64_t stop_after = -1) const {
    return std::make_unique<Process>(path(name + ".log"), [this, c, name, resume, stop_after] {
      Told told(stop_after);
      return run(c, {.folder = path(name), .resume = resume, .listener = &told}) ? 0 : kStopped;
    });
  }
  std::string log(const std::string& name) const { return read_file(path(name + ".log")); }
};

// Beside it the run that nothing interrupted.
class Run : public Training {
 protected:
  static void SetUpTestSuite() {
    temp_ = std::make_unique<TempFolder>();
    straight_ = *temp_ / "run";
    Process process(straight_ + ".log", [] { return run(config(), {straight_, false}) ? 0 : kStopped; });
    ASSERT_EQ(process.wait(), 0) << read_file(straight_ + ".log");
  }
  static void TearDownTestSuite() { temp_.reset(); }
  static inline std::unique_ptr<TempFolder> temp_;
  static inline std::string straight_;
};

TEST_F(Run, LeavesWhatItPromises) {
  const std::string folder = straight_;
  EXPECT_EQ(latest(folder), "step-000024");
  EXPECT_EQ(fs::read_symlink(folder + "/latest"), "checkpoints/step-000024");
  for (const char* step : {"000009", "000018", "000024"}) {
    EXPECT_TRUE(fs::exists(fmt::format("{}/samples/step-{}-0.png", folder, step)));
  }
  EXPECT_NE(read_file(folder + "/report.html").find("24 of 24 steps"), std::string::npos);
  EXPECT_FALSE(fs::is_empty(folder + "/tensorboard"));
  const RunConfig again = load_run(folder + "/config.toml", {});
  EXPECT_EQ(again.train.steps, 24);
  EXPECT_EQ(again.model.head_dim, 8);
  const auto rows = report::read_metrics(folder + "/metrics.jsonl").rows;
  ASSERT_EQ(rows.size(), 25u);
  for (const std::size_t step : {0, 5, 10, 15, 20, 24}) EXPECT_GT(rows[step].value("validation_loss"), 0) << step;
  EXPECT_TRUE(std::isnan(rows[1].value("validation_loss")));
  for (std::size_t step = 1; step < 25; ++step) EXPECT_GT(rows[step].value("tokens_per_second"), 0) << step;
}

// Killed three times at moments that depend on the seed, with another number of threads each time. It would run for
// ever, so that no machine is fast enough to finish it before; how far it came is how far the other one has to go.
TEST_F(Run, KilledAndResumedEndsWithTheSameBits) {
  SCOPED_TRACE(fmt::format("REEL_TEST_SEED={}", attention::test_seed()));
  const Random random(attention::test_seed());
  const std::string folder = path("killed");
  for (std::uint64_t kill = 0; kill < 3; ++kill) {
    const std::int64_t before = std::max<std::int64_t>(last_step(folder), 0);
    const auto process =
        start(config({"train.steps=100000", fmt::format("train.threads={}", kill + 1)}), "killed", true);
    const auto step = before + static_cast<std::int64_t>(random.below(2 * kill, 6));
    ASSERT_TRUE(process->wait_until([&] { return last_step(folder) >= step; })) << log("killed");
    ::usleep(static_cast<useconds_t>(random.below(2 * kill + 1, 10'000)));
    process->send(SIGKILL);
    EXPECT_EQ(process->wait(), -SIGKILL) << log("killed");
  }
  const std::string steps = fmt::format("train.steps={}", last_step(folder) + 3);
  ASSERT_EQ(start(config({steps, "train.threads=2"}), "killed", true)->wait(), 0) << log("killed");
  EXPECT_EQ(log("killed").find("\nbegun 0\n"), std::string::npos) << log("killed");
  ASSERT_EQ(start(config({steps}), "straight", false)->wait(), 0) << log("straight");
  expect_same_end(path("straight"), folder);
}

// Stopped: a checkpoint at once, run() gives false, and the rest of the run is as if nothing had been. Also before the
// first step, where there is nothing to lose.
TEST_F(Run, AStopSavesACheckpointAndTheRunContinuesFromThere) {
  for (const std::int64_t after : {0, 3}) {
    const std::string name = fmt::format("stopped {}", after);
    ASSERT_EQ(start(config({"train.steps=100000", "train.checkpoint_every=0"}), name, false, after)->wait(), kStopped)
        << log(name);
    EXPECT_EQ(latest(path(name)), fmt::format("step-{:06}", after));
    ASSERT_EQ(start(config(), name, true)->wait(), 0) << log(name);
    expect_same_end(straight_, path(name));
  }
}

TEST_F(Run, TheListenerHearsTheStoryInOrder) {
  const std::string start = "started 3 steps, 16 tokens, 1 ranks\n";
  const RunOptions anew = {.folder = path("run")}, again = {.folder = path("run"), .resume = true};
  const auto story = [](const RunConfig& c, RunOptions options, std::int64_t stop_after) {
    Told told(stop_after);
    options.listener = &told;
    EXPECT_EQ(run(c, options), stop_after < 0);
    return told.story;
  };
  const RunConfig c = config({"train.steps=3"});
  EXPECT_EQ(story(c, anew, 2), start + "begun 0\nstep 1 of 3\nstep 2 of 3\nstopped 2 of 3\n");
  EXPECT_EQ(story(c, again, -1), start + "begun 2\nstep 3 of 3\ndone 3 of 3\n");
  EXPECT_EQ(story(c, again, -1), start + "begun 3\ndone 3 of 3\n");
}

TEST_F(Run, NobodyIsToldAndNothingIsPrinted) {
  Process process(path("quiet.log"), [&] { return run(config({"train.steps=3"}), {path("run"), false}) ? 0 : 1; });
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(log("quiet"), "");
}

TEST_F(Run, AnExistingRunNeedsResume) {
  const RunConfig c = config({"train.steps=2"});
  ASSERT_EQ(start(c, "run", true)->wait(), 0) << "nothing there: it starts\n" << log("run");
  EXPECT_EQ(message_of([&] {
              run(c, {path("run"), false});
            }),
            path("run") + ": this folder already holds a run | use --resume to continue it, or choose another --out");
  EXPECT_TRUE(run(c, {path("run"), true})) << "all steps are done already";
  // A run that was killed before its first checkpoint may be started anew; its metrics go.
  ASSERT_EQ(start(config({"train.checkpoint_every=0", "train.lr=0"}), "dead", false)->wait(), 0);
  fs::remove(path("dead/latest"));
  EXPECT_TRUE(run(c, {path("dead"), false}));
  EXPECT_EQ(report::read_metrics(path("dead/metrics.jsonl")).rows.size(), 3u);
}

TEST_F(Run, MoreStepsMayFollowAFinishedRun) {
  ASSERT_EQ(start(config({"train.steps=10"}), "longer", false)->wait(), 0) << log("longer");
  ASSERT_EQ(start(config(), "longer", true)->wait(), 0) << log("longer");
  EXPECT_TRUE(read_file(path("longer/latest/optimizer.safetensors")) ==
              read_file(straight_ + "/latest/optimizer.safetensors"));
}

TEST_F(Run, OnlyOneProcessTrainsInAFolder) {
  const auto process = start(config({"train.steps=100000"}), "run", false);
  ASSERT_TRUE(process->wait_until([&] { return last_step(path("run")) >= 3; })) << log("run");
  EXPECT_EQ(message_of([&] {
              run(config(), {path("run"), true});
            }),
            path("run") + ": another process trains there | wait for it, or choose another --out");
  process->send(SIGKILL);
  process->wait();
  EXPECT_TRUE(run(config({"train.steps=1"}), {path("run"), true})) << "the dead hold no lock";
}

TEST_F(Run, AFolderThatCannotBeMadeIsAnError) {
  write_file_atomically(path("file"), "");
  const std::string message = message_of([&] { run(config(), {path("file/run"), false}); });
  EXPECT_TRUE(message.starts_with(path("file/run") + ": ") && message.ends_with("| choose another --out")) << message;
}

// Latents whose squares are too large for f32, as after a broken encoder.
class Broken : public Training {
 protected:
  RunConfig latents(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"data.source=latents", "data.path=" + path("data"), "data.validation=0",
                                    "train.steps=12",      "train.checkpoint_every=0",  "train.batch=1"};
    all.insert(all.end(), more.begin(), more.end());
    return config(all);
  }
  void write(int clips, int broken) const {
    data::Format format{3, 2, 8, 8, 4, 64};
    std::vector<data::Clip> all;
    for (int i = 0; i < clips; ++i) {
      all.emplace_back().fit(format);
      Random(1, static_cast<std::uint64_t>(i)).fill_normal(all.back().values);
      Random(2, static_cast<std::uint64_t>(i)).fill_normal(all.back().text);
      if (i < broken) all.back().values[0] = 1e30f;
    }
    fs::create_directories(path("data"));
    data::write_latents(path("data/shard.safetensors"), all, format);
  }
};

TEST_F(Broken, FiveStepsInARowThatAreNotFiniteEndTheRun) {
  write(8, 0);
  ASSERT_EQ(start(latents({"train.steps=3"}), "run", false)->wait(), 0) << log("run");
  write(8, 8);
  ASSERT_EQ(start(latents(), "run", true)->wait(), 2) << log("run");
  const std::string text = log("run");
  for (int step = 4; step <= 8; ++step) {
    const std::string both = fmt::format("step {0} of 12\nskipped {0}, {1} in a row\n", step, step - 3);
    EXPECT_NE(text.find(both), std::string::npos) << both << text;
  }
  EXPECT_NE(
      text.find("step 8: 5 steps in a row with a loss or gradients that are not finite | the weights are those of "
                "before; the last checkpoint is "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("lower train.lr (now 0.001), lengthen train.warmup, or look for broken clips"),
            std::string::npos);
  EXPECT_NE(read_file(path("run/metrics.jsonl")).find("{\"step\":8,\"loss\":null,"), std::string::npos);
  EXPECT_EQ(latest(path("run")), "step-000003");
  // With sound clips it continues from there.
  write(8, 0);
  ASSERT_EQ(start(latents(), "run", true)->wait(), 0) << log("run");
  ASSERT_EQ(start(latents(), "straight", false)->wait(), 0) << log("straight");
  EXPECT_TRUE(read_file(path("run/latest/optimizer.safetensors")) ==
              read_file(path("straight/latest/optimizer.safetensors")));
}

// Every second clip is broken: never more than two in a row.
TEST_F(Broken, SingleStepsThatAreNotFiniteAreCountedAndLeftOut) {
  write(2, 1);
  ASSERT_EQ(start(latents(), "run", false)->wait(), 0) << log("run");
  const auto rows = report::read_metrics(path("run/metrics.jsonl")).rows;
  int skipped = 0;
  for (const report::MetricRow& row : rows) skipped += row.values.contains("loss") && std::isnan(row.value("loss"));
  EXPECT_EQ(skipped, 6);
  const std::string state = read_file(path("run/latest/state.json"));
  EXPECT_NE(state.find("\"skipped\": 6"), std::string::npos) << state;
  EXPECT_NE(state.find("\"optimizer_steps\": 6"), std::string::npos) << state;
}

TEST_F(Broken, AResumedRunCountsOn) {
  write(8, 8);
  ASSERT_EQ(start(latents({"train.steps=3", "train.samples=0"}), "run", false)->wait(), 0) << log("run");
  ASSERT_EQ(start(latents({"train.samples=0"}), "run", true)->wait(), 2);
  EXPECT_NE(log("run").find("step 5: 5 steps in a row"), std::string::npos) << log("run");
}

// On a disk of its own, where the system lets us mount one.
TEST_F(Run, AFullDiskEndsTheRunWhichGoesOnWhenThereIsRoom) {
  constexpr int kMayNot = 77;
  Process process(path("full.log"), [&] {
    fs::create_directories(path("disk"));
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kMayNot;
    if (::mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=1m") != 0) return kMayNot;
    const std::string folder = path("disk/run");
    const std::string message = message_of([&] { run(config({"train.keep=100"}), {folder, false}); });
    fmt::print("\n{}\n", message);
    if (message.find("No space left on device") == std::string::npos) return 3;
    const std::string whole = latest(folder);
    fmt::print("{} is the latest\n", whole);
    if (whole.empty()) return 4;
    for (const auto& entry : fs::directory_iterator(folder + "/checkpoints")) {
      if (entry.path().filename() != whole) fs::remove_all(entry.path());
    }
    if (!run(config(), {folder, true})) return 5;
    fs::copy(folder, path("saved"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return 0;
  });
  const int result = process.wait();
  if (result == kMayNot) GTEST_SKIP() << "this process may not mount a disk";
  ASSERT_EQ(result, 0) << log("full");
  expect_same_end(straight_, path("saved"));
}

}  // namespace
}  // namespace reel::train
