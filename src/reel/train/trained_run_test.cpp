#include "reel/train/trained_run.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/train/checkpoint.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

namespace fs = std::filesystem;
using testing::copy_of;
using testing::small_run;
using Sparsity = OpenOptions::Sparsity;

class OpenRun : public testing::Files {
 protected:
  OpenRun() : run_(path("run")) {}
  // Trains, keeps a checkpoint and gives what was trained.
  std::unique_ptr<testing::Trained> train(const std::vector<std::string>& more, int steps) {
    const RunConfig c = small_run("wan", more);
    auto trained = std::make_unique<testing::Trained>(c, steps);
    fs::create_directories(run_);
    write_file_atomically(run_ + "/config.toml", c.text);
    save_checkpoint(run_, trained->trainer, {.step = steps}, 1);
    return trained;
  }
  static std::vector<float> weights(const TrainedRun& run) { return copy_of(run.model->parameters().trained_values()); }

  const std::string run_;
};

TEST_F(OpenRun, HasTheWeightsOfTheRunOrTheirAverage) {
  const auto trained = train({}, 3);
  const TrainedRun last = open_run(run_, {.averaged = false}), averaged = open_run(run_);
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(fs::path(last.checkpoint).filename(), "step-000003");
  EXPECT_EQ(last.config.text, trained->trainer.config().text);
  EXPECT_EQ(last.sparsity, nullptr);
  EXPECT_EQ(last.source->format().frames, 2);
  EXPECT_FALSE(last.averaged);
  EXPECT_TRUE(averaged.averaged);
  testing::expect_same_bits(weights(last), copy_of(trained->values()));
  EXPECT_NE(weights(averaged), weights(last));
  trained->trainer.with_average([&] { testing::expect_same_bits(weights(averaged), copy_of(trained->values())); });
}

TEST_F(OpenRun, HasTheControllerAsTheRunLeftIt) {
  const auto trained = train({"sparsity.mode=dynamic", "sparsity.group=[1, 2, 2]", "sparsity.profile_every=1"}, 3);
  const sparsity::Head& head = trained->trainer.sparsity()->head(0, 0);
  ASSERT_GT(head.profiles, 0);
  const TrainedRun run = open_run(run_);
  ASSERT_NE(run.sparsity, nullptr);
  for (const sparsity::HeadField& field : sparsity::kHeadFields) {
    EXPECT_EQ(run.sparsity->head(0, 0).*field.value, head.*field.value) << field.name;
  }
  EXPECT_EQ(open_run(run_, {.sparsity = Sparsity::kOff}).sparsity, nullptr);
  // As where the run has only just turned sparse.
  fs::remove(run_ + "/latest/sparsity.safetensors");
  EXPECT_EQ(open_run(run_).sparsity->head(0, 0).profiles, 0);
}

TEST_F(OpenRun, ADenseRunGetsAControllerOnRequest) {
  train({}, 1);
  const TrainedRun run = open_run(run_, {.sparsity = Sparsity::kAlways});
  ASSERT_NE(run.sparsity, nullptr);
  EXPECT_EQ(run.sparsity->sparse_share(), 0);
}

TEST_F(OpenRun, WhatIsMissingOrDamagedIsNamed) {
  EXPECT_EQ(message_of([&] { open_run(run_); }),
            run_ + ": not a run: no config.toml | give the folder of `reel train`");
  fs::create_directories(run_);
  write_file_atomically(run_ + "/config.toml", small_run("wan").text);
  EXPECT_EQ(message_of([&] { open_run(run_); }),
            run_ + ": no checkpoint yet | train.checkpoint_every says when there is one");
  train({}, 1);
  const std::string checkpoint = open_run(run_).checkpoint;
  const std::string state = read_file(checkpoint + "/state.json");
  write_file_atomically(checkpoint + "/state.json", state.substr(0, state.size() / 2));
  const std::string torn = message_of([&] { open_run(run_); });
  EXPECT_TRUE(torn.starts_with(checkpoint + "/state.json: ")) << torn;
  EXPECT_TRUE(torn.ends_with("| point RUN/latest at another checkpoint")) << torn;
  write_file_atomically(checkpoint + "/state.json", state);
  fs::resize_file(checkpoint + "/ema.safetensors", 100);
  EXPECT_NE(message_of([&] { open_run(run_); }).find("ema.safetensors"), std::string::npos);
  EXPECT_NO_THROW(open_run(run_, {.averaged = false}));
  fs::remove(checkpoint + "/state.json");
  EXPECT_NE(message_of([&] { open_run(run_); }).find("latest: not a link to a whole checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace reel::train
