// reel bench quality, as a user meets it, and what its numbers mean.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reel/app/quality.h"
#include "reel/app/testing.h"
#include "reel/files/file.h"
#include "reel/report/testing.h"
#include "reel/train/testing.h"

namespace reel::app {
namespace {

using testing::Result;

constexpr const char* kStoryboardRun = R"([model]
layers = 1
heads = 2
head_dim = 8
patch = [1, 2, 2]
[video]
frames = 4
height = 16
width = 16
[data]
source = "storyboard"
cell = 2
validation = 2
[diffusion]
conditioning_frames = 2
[train]
steps = 100
batch = 1
validate_every = 3
[sparsity]
group = [2, 4, 4]
)";

Result quality(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "quality", "--threads", "1"});
  return testing::reel(words);
}

class BenchQuality : public train::testing::Files {
 protected:
  BenchQuality() : file_(path("tiny.toml")) { write_file_atomically(file_, kStoryboardRun); }
  const std::string file_;
};

TEST_F(BenchQuality, TrainsEveryArmFromTheSameSeedsAndWritesAllOfIt) {
  const Result result = quality({"--model", file_, "--seeds", "2", "--steps", "7", "--keys", "0.25", "--arms",
                                 "dense,own,random", "--json", path("q.json"), "--report", path("q.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("256 tokens, 6 runs of 7 steps; 25 % of the keys"), std::string::npos) << result.out;
  const auto json = nlohmann::json::parse(read_file(path("q.json")));
  EXPECT_EQ(json["steps"], 7);
  EXPECT_EQ(json["break_even"], 1);
  EXPECT_EQ(json["seeds"], (std::vector<int>{0, 1}));
  ASSERT_EQ(json["arms"].size(), 3u);
  EXPECT_GT(json["machine"]["peak_all"], 1e8);
  ASSERT_EQ(json["rows"].size(), 6u);
  EXPECT_EQ(json["rows"][1]["case"], "own seed 0");
  for (std::size_t i = 0; i < 6; ++i) {
    const auto& run = json["rows"][i];
    SCOPED_TRACE(run.dump());
    EXPECT_EQ(run["seed"], i / 3);
    const std::string arm = run["arm"];
    EXPECT_EQ(arm, (std::vector<std::string>{"dense", "own", "random"}[i % 3]));
    ASSERT_EQ(run["curve"].size(), 4u) << "steps 0, 3, 6 and 7";
    EXPECT_EQ(run["curve"][3]["step"], 7);
    EXPECT_EQ(run["curve"][3]["validation_loss"], run["loss"]);
    // Eight tiles of 32 of the 256 tokens: the own one is an eighth. Random keys that fall into it are no second keys.
    const double budget = arm == "dense" ? 1 : arm == "own" ? 0.125 : 0.25;
    EXPECT_LE(run["kept_keys"], budget);
    EXPECT_GE(run["kept_keys"], budget - (arm == "random" ? 0.03 : 0));
    EXPECT_EQ(run["sparse_from"], arm == "dense" ? -1 : 1);
    EXPECT_EQ(run["break_even"], arm == "dense" ? 0 : 1);
    EXPECT_EQ(run["loss_evaluated_dense"] == run["loss"], arm == "dense");
    EXPECT_GT(run["seconds"], 0);
    EXPECT_EQ(run["skipped_steps"], 0);
    ASSERT_EQ(run["restored"].size(), i < 3 ? 2u : 0u) << "with the first seed";
    if (i >= 3) continue;
    EXPECT_EQ(run["restored"][1]["clip"], 1);
    EXPECT_EQ(run["restored"][1]["psnr_noised"], json["rows"][0]["restored"][1]["psnr_noised"]) << "the same noise";
    EXPECT_NE(run["restored"][1]["psnr"], run["restored"][1]["psnr_noised"]);
    EXPECT_NEAR(json["arms"][i]["restored_psnr"],
                (run["restored"][0]["psnr"].get<double>() + run["restored"][1]["psnr"].get<double>()) / 2, 1e-9);
  }
  EXPECT_NEAR(json["restore_level"], 1 / (1 + std::exp(-1)), 1e-9) << "a deviation above the mean of training times";
  // A seed decides weights and clips.
  EXPECT_NE(json["rows"][0]["curve"][0], json["rows"][3]["curve"][0]);
  const std::string page = read_file(path("q.html"));
  EXPECT_EQ(report::markup_fault(page), "");
  EXPECT_NE(page.find("Validation loss, seed 1"), std::string::npos);
  // For each of two clips: two given frames, the truth, the noise and three arms.
  EXPECT_EQ(report::count_of(page, "<img"), 2u * (2 + 2 + 3));
  EXPECT_NE(page.find("The first 2 frames are given"), std::string::npos);
}

TEST_F(BenchQuality, WithoutGivenFramesWholeClipsAreRestored) {
  const Result result =
      quality({"--model", file_, "--seeds", "1", "--steps", "1", "--arms", "dense,own", "--report", path("q.html"),
               "--set", "diffusion.conditioning_frames=0", "--set", "data.source=moving-shapes"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("one seed"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("dB"), std::string::npos) << result.out;
  const std::string page = read_file(path("q.html"));
  EXPECT_EQ(report::markup_fault(page), "");
  EXPECT_EQ(report::count_of(page, "<img"), 2u * (2 + 2));
  EXPECT_NE(page.find("Into all frames noise"), std::string::npos);
}

TEST_F(BenchQuality, DynamicWithAllKeysTrainsAsDense) {
  const Result result = quality({"--model", file_, "--seeds", "1", "--steps", "12", "--keys", "1", "--arms",
                                 "dense,dynamic", "--json", path("q.json"), "--set", "sparsity.profile_every=5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto runs = nlohmann::json::parse(read_file(path("q.json")))["rows"];
  EXPECT_EQ(runs[0]["curve"][0]["validation_loss"], runs[1]["curve"][0]["validation_loss"]);
  EXPECT_NEAR(runs[0]["loss"], runs[1]["loss"], 1e-3);  // another order of tokens, and of sums
}

TEST_F(BenchQuality, ATwinTellsWhatChanceDoesAndHeadsMayTakeWhatTheyNeed) {
  const Result result =
      quality({"--model", file_, "--seeds", "1", "--steps", "12", "--keys", "0", "--arms", "dense,twin,dynamic",
               "--json", path("q.json"), "--set", "sparsity.profile_every=5", "--set", "sparsity.break_even=0.6"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("as many keys as heads need"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("chance: dense again"), std::string::npos) << result.out;
  const auto runs = nlohmann::json::parse(read_file(path("q.json")))["rows"];
  EXPECT_EQ(runs[0]["curve"][0]["validation_loss"], runs[1]["curve"][0]["validation_loss"]) << "the same weights";
  EXPECT_NE(runs[0]["loss"], runs[1]["loss"]);
  EXPECT_NEAR(runs[0]["loss"], runs[1]["loss"], 1e-3);
  EXPECT_EQ(runs[1]["kept_keys"], 1);
  EXPECT_EQ(runs[0]["break_even"], 0);
  EXPECT_NEAR(runs[2]["break_even"], 0.6, 1e-6) << "a budget of its own would have set it to 1";
}

TEST_F(BenchQuality, MistakesAreNamed) {
  const auto expect_mistake = [&](const std::vector<std::string>& words, const std::vector<std::string>& said) {
    const Result result = quality(words);
    EXPECT_EQ(result.code, 2);
    for (const std::string& each : said)
      EXPECT_NE(result.err.find(each), std::string::npos) << each << "\n" << result.err;
  };
  expect_mistake({"--model", file_, "--arms", "dense,windw"}, {"'windw' is not known", "did you mean 'window'?"});
  expect_mistake({"--model", file_, "--arms", "dense,own,own"}, {"own is there twice"});
  expect_mistake({"--model", file_, "--arms", "dynamic,own"}, {"the first must be dense"});
  expect_mistake({"--model", path("no.toml")}, {"no.toml"});
  expect_mistake({"--model", file_, "--seeds", "0"}, {"--seeds"});
  expect_mistake({"--model", file_, "--set", "data.validation=0"}, {"no clips are held out"});
}

// Losses of two seeds, an arm each.
Quality example(double dynamic, double window) {
  Quality quality{.steps = 10, .arms = {"dense", "dynamic", "own", "window"}, .seeds = {0, 1}};
  for (const std::int64_t seed : quality.seeds) {
    const double shift = 0.2 * static_cast<double>(seed);
    for (const auto& [arm, loss] : {std::pair("dense", 0.5), {"dynamic", dynamic}, {"own", 1.5}, {"window", window}}) {
      quality.runs.push_back({.arm = arm, .seed = seed, .loss = loss + shift, .loss_dense = 0.5 + shift});
    }
  }
  return quality;
}

TEST(Quality, SharesOfTheGainAreTakenSeedBySeed) {
  const Quality quality = example(0.52, 1.3);
  const std::vector<ArmSummary> arms = summarise(quality);
  EXPECT_NEAR(arms[1].lost.mean, 0.02, 1e-9);
  EXPECT_NEAR(arms[1].lost.high, 0.02, 1e-9) << "what the seeds have in common is no spread";
  EXPECT_NEAR(arms[1].loss.high - arms[1].loss.low, 0.2, 1e-9);
  EXPECT_NEAR(arms[2].lost.mean, 1, 1e-9);
  EXPECT_NEAR(arms[3].lost.mean, 0.8, 1e-9);
  EXPECT_NEAR(arms[3].lost_dense.mean, 0, 1e-9);
  EXPECT_TRUE(needs_dynamic(quality));
}

TEST(Quality, SaysSoWhenAControlDoesAsWell) {
  const Quality quality = example(0.52, 0.54);
  EXPECT_FALSE(needs_dynamic(quality));
  EXPECT_EQ(findings(quality).front(), "the data does not need dynamic attention: window does as well");
}

TEST(Quality, SaysSoWhenTheOwnTileIsEnough) {
  Quality quality = example(0.52, 1.3);
  for (QualityRun& run : quality.runs) {
    if (run.arm == "own") run.loss = 1.05 * quality.run("dense", run.seed)->loss;
  }
  EXPECT_FALSE(needs_dynamic(quality));
  EXPECT_NE(findings(quality).front().find("the own tile alone is within 5.0 % of dense"), std::string::npos)
      << findings(quality).front();
}

TEST(Quality, WithoutTheOwnArmLossesAreComparedWithDense) {
  Quality quality = example(0.52, 1.3);
  quality.arms = {"dense", "dynamic"};
  std::erase_if(quality.runs, [](const QualityRun& run) { return run.arm == "own" || run.arm == "window"; });
  const ArmSummary dynamic = summarise(quality)[1];
  EXPECT_TRUE(std::isnan(dynamic.lost.mean));
  EXPECT_NEAR(dynamic.over_dense.high, 0.04, 1e-9);
  EXPECT_TRUE(needs_dynamic(quality)) << "nothing was run that could say otherwise";
}

}  // namespace
}  // namespace reel::app
