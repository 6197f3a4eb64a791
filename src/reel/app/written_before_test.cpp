// What version 3a24c58 wrote (tests/data/3a24c58) is read by every later one: a run whose heads are sparse, key lists
// that know neither their order nor their head dimension, and a plan.
//
// The run: wan of 2 layers, a head of 16 floats, 128 tokens in tiles of 2 x 2 x 2, 20 steps; dumped.safetensors are the
// lists of layer 1 at step 20. study.safetensors is of 2 heads, plan.json of these lists on 4 ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "reel/app/testing.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"
#include "reel/files/safetensors.h"
#include "reel/report/metrics.h"

namespace reel::app {
namespace {

namespace fs = std::filesystem;
using testing::reel;
using testing::Result;

const std::string kWritten = REEL_SOURCE_DIR "/tests/data/3a24c58";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WrittenBefore : public ::testing::Test {
 protected:
  WrittenBefore() { fs::copy(kWritten, folder_.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks); }
  std::string path(const std::string& name) const { return folder_ / name; }

 private:
  TempFolder folder_;
};

TEST_F(WrittenBefore, ARunIsResumedAndSampled) {
  const std::string run = path("run");
  const Result resumed = reel({"train", run + "/config.toml", "--out", run, "--resume", "--set", "train.steps=21",
                               "--set", "train.validate_every=1"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(has(resumed.out, "resumed at step 20")) << resumed.out;
  // As 3a24c58 itself continued it: weights, moments, data, decisions and predictors are those that were kept.
  const std::pair<const char*, double> continued[] = {{"loss", 1.3900268077850342},
                                                      {"gradient_norm", 0.26387900595483726},
                                                      {"kept_keys", 0.41015625},
                                                      {"sparse_heads", 1},
                                                      {"validation_loss", 1.4396030902862549}};
  for (const auto& [name, value] : continued) {
    double found = 0;
    for (const auto& row : report::read_metrics(run + "/metrics.jsonl").rows) {
      if (row.step == 21 && row.values.contains(name)) found = row.value(name);
    }
    EXPECT_NEAR(found, value, 1e-5 * value) << name << ": other instructions round otherwise";
  }
  const Result sampled = reel({"sample", run, "--steps", "2", "--out", path("clip.safetensors")});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_TRUE(has(sampled.out, "step-000021")) << sampled.out;
}

TEST_F(WrittenBefore, ListsAreReadAndWhatTheyDoNotSayIsSaid) {
  const std::string dumped = path("dumped.safetensors"), study = path("study.safetensors");
  const std::string no_order = ": there is no tensor 'order': tokens are taken to be in raster order";
  Result result = reel({"export", dumped, "--to", "flex", "--out", path("flex.safetensors")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "reel: " + dumped + no_order + "\n");
  EXPECT_FALSE(SafetensorsFile::open(path("flex.safetensors")).contains("order"));
  result = reel({"export", study, "--to", "flex", "--out", path("flex.safetensors")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(SafetensorsFile::open(path("flex.safetensors")).info("order").shape, (std::vector<std::int64_t>{128}));

  const std::string assumed = ": head_dim is not in it: 128 is assumed (--head-dim)";
  result = reel({"plan", "partition", dumped, "--ranks", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "reel: " + dumped + no_order + "\nreel: " + dumped + assumed + "\n");
  result = reel({"plan", "partition", study, "--ranks", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "reel: " + study + assumed + "\n");
}

// No verb reads plans yet: that of then has the keys of now, and deals the same work as well.
TEST_F(WrittenBefore, APlanHasTheKeysThatAreWrittenNow) {
  setenv("REEL_MACHINE", path("no_machine.toml").c_str(), 1);  // keys are counted, as then
  const Result result = reel({"plan", "partition", path("study.safetensors"), "--ranks", "4", "--ulysses", "2",
                              "--ring", "2", "--json", path("now.json")});
  unsetenv("REEL_MACHINE");
  ASSERT_EQ(result.code, 0) << result.err;
  const auto then = nlohmann::ordered_json::parse(read_file(path("plan.json")));
  const auto now = nlohmann::ordered_json::parse(read_file(path("now.json")));
  const auto keys = [](const nlohmann::ordered_json& plan) {
    std::vector<std::string> names;
    for (const auto& [name, value] : plan.items()) names.push_back(name);
    return names;
  };
  EXPECT_EQ(keys(now), keys(then));
  for (const char* name : {"ranks", "ulysses", "ring", "rho_contiguous"}) EXPECT_EQ(now[name], then[name]) << name;
  EXPECT_LE(now["rho"].get<double>(), then["rho"].get<double>() + 1e-9);
}

}  // namespace
}  // namespace reel::app
