#include "reel/train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <set>

#include "reel/base/testing.h"
#include "reel/model/folder.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

namespace fs = std::filesystem;
using testing::copy_of;
using testing::expect_same_bits;
using testing::small_run;
using testing::Trained;

const RunState kState{.step = 3, .data_position = 6, .skipped = 2, .skipped_in_row = 1, .wall_seconds = 12.5};

const std::vector<std::string> kFiles = {"config.json", "diffusion_pytorch_model.safetensors", "ema.safetensors",
                                         "optimizer.safetensors", "state.json"};

RunState state_at(std::int64_t step) { return {.step = step}; }

std::vector<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return {names.begin(), names.end()};
}

void expect_same_state(Trained& a, Trained& b) {
  for (std::size_t i = 0; i < a.trainer.model().parameters().all().size(); ++i) {  // those that are not trained, too
    expect_same_bits(a.trainer.model().parameters().all()[i].values(),
                     b.trainer.model().parameters().all()[i].values());
  }
  optim::Optimizer &of_a = a.trainer.optimizer(), &of_b = b.trainer.optimizer();
  expect_same_bits(of_a.first_moment(), of_b.first_moment());
  expect_same_bits(of_a.second_moment(), of_b.second_moment());
  expect_same_bits(of_a.average(), of_b.average());
  EXPECT_EQ(of_a.steps_done(), of_b.steps_done());
  EXPECT_EQ(a.trainer.steps_done(), b.trainer.steps_done());
}

class Checkpoint : public testing::Files {
 protected:
  const std::string run_ = path("run");
  std::string latest() const { return fs::path(latest_checkpoint(run_)).filename(); }
};

TEST_F(Checkpoint, LoadingGivesBackWhatWasSaved) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained a(small_run(family), 3), b(small_run(family, {"model.seed=1"}), 0);
    save_checkpoint(path(family), a.trainer, kState, 2);
    const std::optional<RunState> state = load_checkpoint(path(family), b.trainer);
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->step, kState.step);
    EXPECT_EQ(state->data_position, kState.data_position);
    EXPECT_EQ(state->skipped, kState.skipped);
    EXPECT_EQ(state->skipped_in_row, kState.skipped_in_row);
    EXPECT_EQ(state->wall_seconds, kState.wall_seconds);
    expect_same_state(a, b);
  }
}

TEST_F(Checkpoint, LatestIsALinkToAWholeFolder) {
  Trained a(small_run("wan"), 3);
  save_checkpoint(run_, a.trainer, kState, 2);
  ASSERT_TRUE(fs::is_symlink(run_ + "/latest"));
  EXPECT_EQ(fs::read_symlink(run_ + "/latest"), "checkpoints/step-000003");  // so that the run may be moved
  EXPECT_EQ(latest_checkpoint(run_), fs::canonical(run_ + "/checkpoints/step-000003"));
  EXPECT_EQ(names_in(run_ + "/latest"), kFiles);
  EXPECT_EQ(names_in(run_), (std::vector<std::string>{"checkpoints", "latest"}));
  EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-000003"}));
}

TEST_F(Checkpoint, IsAModelFolderWithTheAverageBesideIt) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained a(small_run(family), 3);
    save_checkpoint(path(family), a.trainer, kState, 2);
    const auto model = model::load_model(latest_checkpoint(path(family)), tape::Parameters::With::kValues);
    expect_same_bits(model->parameters().trained_values(), a.values());
    model::load_weights(*model, path(family) + "/latest/ema.safetensors");
    expect_same_bits(model->parameters().trained_values(), a.trainer.optimizer().average());
  }
}

TEST_F(Checkpoint, TheNewestOnesAreKept) {
  Trained a(small_run("wan"), 0);
  for (const std::int64_t step : {1, 2, 3, 4}) save_checkpoint(run_, a.trainer, state_at(step), 2);
  EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-000003", "step-000004"}));
  EXPECT_EQ(latest(), "step-000004");
  save_checkpoint(run_, a.trainer, state_at(5), 1);
  EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-000005"}));
  // By number: 1000000 is newer than 999999 although its name comes first.
  for (const std::int64_t step : {999999, 1000000, 1000001}) save_checkpoint(run_, a.trainer, state_at(step), 2);
  EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-1000000", "step-1000001"}));
}

TEST_F(Checkpoint, WhatAKillLeavesBehindDoesNotMatter) {
  Trained a(small_run("wan"), 3), b(small_run("wan"), 0);
  save_checkpoint(run_, a.trainer, state_at(1), 2);
  // Killed while writing; after the folder got its name, before the link was moved; and while the link was made.
  fs::create_directories(run_ + "/checkpoints/.writing/deep");
  write_file_atomically(run_ + "/checkpoints/.writing/optimizer.safetensors", "half");
  fs::create_directories(run_ + "/checkpoints/step-000003");
  write_file_atomically(run_ + "/checkpoints/step-000003/state.json", "{}");
  fs::create_symlink("nowhere", run_ + "/.latest");
  EXPECT_EQ(latest(), "step-000001");
  save_checkpoint(run_, a.trainer, kState, 2);
  EXPECT_EQ(latest(), "step-000003");
  EXPECT_EQ(names_in(run_ + "/latest"), kFiles);
  EXPECT_EQ(load_checkpoint(run_, b.trainer)->data_position, kState.data_position);
  expect_same_state(a, b);
  EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-000001", "step-000003"}));
}

TEST_F(Checkpoint, TheSameStepIsWrittenOnce) {
  Trained a(small_run("wan"), 3);
  save_checkpoint(run_, a.trainer, kState, 2);
  const auto written = fs::last_write_time(run_ + "/latest/state.json");
  a.step();  // what is there stays what it was
  save_checkpoint(run_, a.trainer, kState, 2);
  EXPECT_EQ(fs::last_write_time(run_ + "/latest/state.json"), written);
}

TEST_F(Checkpoint, NoneIsNoError) {
  Trained a(small_run("wan"), 0);
  EXPECT_EQ(latest_checkpoint(run_), "");
  EXPECT_FALSE(load_checkpoint(run_, a.trainer).has_value());
  fs::create_directories(run_ + "/checkpoints/step-000007");  // without a link to it
  EXPECT_FALSE(load_checkpoint(run_, a.trainer).has_value());
}

TEST_F(Checkpoint, ALinkToNothingIsAnError) {
  Trained a(small_run("wan"), 0);
  save_checkpoint(run_, a.trainer, state_at(1), 2);
  fs::remove_all(run_ + "/checkpoints/step-000001");
  const std::string expected = fmt::format(
      "{0}/latest: not a link to a whole checkpoint | point it at one of {0}/checkpoints, or remove it to start again",
      run_);
  EXPECT_EQ(message_of([&] { latest_checkpoint(run_); }), expected);
  EXPECT_EQ(message_of([&] { load_checkpoint(run_, a.trainer); }), expected);
  fs::create_directories(run_ + "/checkpoints/step-000001");  // not whole
  EXPECT_EQ(message_of([&] { latest_checkpoint(run_); }), expected);
  write_file_atomically(run_ + "/latest/state.json", "{\"step\": 1}");
  const std::string message = message_of([&] { load_checkpoint(run_, a.trainer); });
  EXPECT_NE(message.find("step-000001/state.json: "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("| point RUN/latest at another checkpoint")) << message;
}

TEST_F(Checkpoint, OfAnotherModelIsOneErrorThatListsTensors) {
  Trained a(small_run("wan"), 3);
  save_checkpoint(run_, a.trainer, kState, 2);
  Trained wider(small_run("wan", {"model.ffn=48"}), 0);
  const std::string folder = latest_checkpoint(run_);
  EXPECT_EQ(message_of([&] { load_checkpoint(run_, wider.trainer); }),
            folder +
                ": 3 tensors do not fit the model | "
                "blocks.0.ffn.net.0.proj.weight is [64, 16], should be [48, 16]\n"
                "blocks.0.ffn.net.0.proj.bias is [64], should be [48]\n"
                "blocks.0.ffn.net.2.weight is [16, 64], should be [16, 48]");
  Trained deeper(small_run("wan", {"model.layers=2"}), 0);
  const std::string missing = message_of([&] { load_checkpoint(run_, deeper.trainer); });
  EXPECT_NE(missing.find("blocks.1.attn1.to_q.weight is missing"), std::string::npos) << missing;
  Trained other(small_run("latte"), 0);
  const std::string unknown = message_of([&] { load_checkpoint(run_, other.trainer); });
  EXPECT_NE(unknown.find("tensors do not fit the model"), std::string::npos) << unknown;
}

TEST_F(Checkpoint, AnAverageMayBeginOrEndWithAResumedRun) {
  Trained without(small_run("wan", {"train.ema=0"}), 3), with(small_run("wan"), 0);
  save_checkpoint(run_, without.trainer, kState, 2);
  EXPECT_FALSE(fs::exists(run_ + "/latest/ema.safetensors"));
  load_checkpoint(run_, with.trainer);
  expect_same_bits(with.trainer.optimizer().average(), without.values());
  with.step();
  save_checkpoint(run_, with.trainer, state_at(4), 2);
  load_checkpoint(run_, without.trainer);
  expect_same_bits(without.values(), with.values());
}

TEST_F(Checkpoint, ARunGoesOnWithTheSameBits) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    Trained straight(small_run(family), 5), first(small_run(family), 2), second(small_run(family), 0);
    save_checkpoint(path(family), first.trainer, {.step = 2, .data_position = first.clips.loader.position()}, 1);
    const RunState state = load_checkpoint(path(family), second.trainer).value();
    data::Loader loader(*second.clips.source, {2, 0, state.data_position});
    for (int i = 0; i < 3; ++i) second.trainer.step([&] { return loader.next(); });
    expect_same_state(second, straight);
  }
}

// While it lives no file of this process may grow beyond `bytes`: the write fails, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(std::size_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_;
  void (*before_handler_)(int);
};

TEST_F(Checkpoint, AFullDiskLeavesTheOneBefore) {
  Trained a(small_run("wan"), 3), b(small_run("wan"), 0);
  save_checkpoint(run_, a.trainer, kState, 2);
  Trained later(small_run("wan"), 4);
  const std::size_t weights = fs::file_size(run_ + "/latest/diffusion_pytorch_model.safetensors");
  const std::size_t moments = fs::file_size(run_ + "/latest/optimizer.safetensors");
  ASSERT_GT(moments, weights + 10);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, weights - 1, weights + 1, moments - 1}) {
    std::string message;
    {
      const FileLimit limit(bytes);
      message = message_of([&] { save_checkpoint(run_, later.trainer, state_at(4), 2); });
    }
    EXPECT_NE(message.find("File too large | free some space"), std::string::npos) << bytes << ": " << message;
    EXPECT_EQ(latest(), "step-000003");
    EXPECT_EQ(names_in(run_ + "/checkpoints"), (std::vector<std::string>{"step-000003"}));
  }
  load_checkpoint(run_, b.trainer);
  expect_same_state(a, b);
  save_checkpoint(run_, later.trainer, state_at(4), 2);  // there is room again
  EXPECT_EQ(latest(), "step-000004");
}

}  // namespace
}  // namespace reel::train
