#include "reel/train/predictor_figures.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/train/checkpoint.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

RunConfig figures_config(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"model.layers=2",           "model.head_dim=24", "video.frames=4",
                                  "video.height=16",          "video.width=16",    "sparsity.mode=dynamic",
                                  "sparsity.group=[2, 2, 2]", "sparsity.keep=[0]"};
  all.insert(all.end(), more.begin(), more.end());
  return testing::small_run("wan", all);
}

// A run after `steps` steps, trained, saved and opened again.
TrainedRun opened(const RunConfig& c, int steps) {
  const TempFolder folder;
  testing::Trained trained(c, steps);
  write_file_atomically(folder / "config.toml", c.text);
  save_checkpoint(folder.path(), trained.trainer, {.step = steps}, 1);
  return open_run(folder.path());
}

const PredictorFigures& of(const PredictorTable& table, const std::string& kind, std::int64_t rank) {
  for (const PredictorFigures& each : table.predictors) {
    if (each.kind == kind && each.rank == rank) return each;
  }
  throw Error(fmt::format("no {} of rank {}", kind, rank));
}

TEST(StudyPredictors, MoreNumbersFindMoreAllOfThemFindAllAndTheRunStaysAsItIs) {
  const TrainedRun run = opened(figures_config(), 2);
  const auto values = [&] { return testing::copy_of(run.model->parameters().trained_values()); };
  const std::vector<float> before = values();
  const float profiles = run.sparsity->head(0, 0).profiles;
  Threads threads(1);
  const PredictorTable table = study_predictors(run, threads);
  testing::expect_same_bits(before, values());
  EXPECT_EQ(run.sparsity->head(0, 0).profiles, profiles);
  EXPECT_EQ(table.tokens, 64);
  EXPECT_EQ(table.groups, 8);
  EXPECT_EQ(table.predictors.size(), 7u) << "ranks 8, 16 and 24 of both, and that of the spectrum";
  for (const char* kind : {"qk", "hidden"}) {
    SCOPED_TRACE(kind);
    const PredictorFigures &few = of(table, kind, 8), &all = of(table, kind, 24);
    ASSERT_EQ(all.heads.size(), 4u);
    EXPECT_LT(few.mean.recall, all.mean.recall);
    EXPECT_LE(few.mean.query_mass, all.mean.query_mass + 1e-6);
    for (const predict::FoundKeys& head : few.heads) {
      EXPECT_GT(head.recall, 0);
      EXPECT_LE(head.query_mass, 1 + 1e-6);
      EXPECT_LE(head.group_mass, 1 + 1e-6);
    }
  }
  for (const predict::FoundKeys& head : of(table, "qk", 24).heads) {
    EXPECT_GT(head.recall, 0.98) << "scores are the true ones, but for rounding";
    EXPECT_NEAR(head.query_mass, 1, 1e-4);
    EXPECT_NEAR(head.group_mass, 1, 1e-4);
    EXPECT_GT(head.list_mass, 1) << "own tile and first frame are more than a tenth";
  }
}

TEST(StudyPredictors, NeedAHeldOutClip) {
  const TrainedRun run = opened(figures_config({"data.validation=0"}), 1);
  Threads threads(1);
  EXPECT_NE(message_of([&] { study_predictors(run, threads); }).find("data.validation above 0"), std::string::npos);
}

}  // namespace
}  // namespace reel::train
