#include "reel/app/inspect.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reel/app/testing.h"
#include "reel/base/testing.h"
#include "reel/files/file.h"
#include "reel/files/safetensors.h"
#include "reel/lists/ordered_lists.h"
#include "reel/model/folder.h"
#include "reel/train/config.h"

namespace reel::app {
namespace {

namespace fs = std::filesystem;

const std::string kFixtures = REEL_SOURCE_DIR "/tests/oracle/fixtures";

class Inspect : public ::testing::Test {
 protected:
  Inspect() : folder_(::testing::TempDir() + "reel_inspect") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Inspect() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // What `reel inspect` prints.
  static std::string printed(std::vector<std::string> words) {
    words.insert(words.begin(), "inspect");
    const testing::Result result = testing::reel(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  static int code(const std::string& path) { return testing::call({"inspect", path}); }

  std::string folder_;
};

void expect_has(const std::string& text, const std::vector<std::string>& all) {
  for (const std::string& each : all) EXPECT_NE(text.find(each), std::string::npos) << text << "\n  expected " << each;
}

TEST_F(Inspect, TensorsWithARunningNumberAreOneLine) {
  const std::vector<float> numbers(12);
  SafetensorsWriter writer;
  for (int i = 0; i < 12; ++i) {  // a file sorts 10 before 2
    writer.add(fmt::format("blocks.{}.net.0.weight", i), {2, 3}, std::span(numbers).first(6));
    if (i != 4)
      writer.add(fmt::format("blocks.{}.bias", i), {i == 7 ? 3 : 2}, std::span(numbers).first(i == 7 ? 3 : 2));
  }
  writer.add("text.0.bias", {2}, std::span(numbers).first(2));
  writer.add("text.2.bias", {2}, std::span(numbers).first(2));
  writer.add("table.007", {1}, std::span(numbers).first(1));
  writer.add("half.1", {2}, std::span(numbers).first(2), Dtype::kBF16);
  writer.add("half.2", {2}, std::span(numbers).first(2), Dtype::kF16);
  writer.set_metadata("format", "pt");
  writer.set_metadata("log", std::string(1000, 'x') + "\x1b[31m");
  writer.write(path("x.safetensors"));
  const Json json = look_at_file(path("x.safetensors"), false);
  std::map<std::string, std::int64_t> counts;
  for (const Json& each : json["groups"]) counts[each["name"]] = each["count"];
  const std::map<std::string, std::int64_t> expected = {{"blocks.{0..11}.net.0.weight", 12},
                                                        {"blocks.{0..3}.bias", 4},
                                                        {"blocks.{5..6}.bias", 2},
                                                        {"blocks.7.bias", 1},
                                                        {"blocks.{8..11}.bias", 4},
                                                        {"text.0.bias", 1},
                                                        {"text.2.bias", 1},
                                                        {"table.007", 1},
                                                        {"half.1", 1},
                                                        {"half.2", 1}};
  EXPECT_EQ(counts, expected);
  EXPECT_EQ(json["groups"][0]["name"], "blocks.{0..11}.net.0.weight");
  EXPECT_EQ(json["groups"][0]["parameters"], 72);
  EXPECT_EQ(json["tensors"], 28);
  EXPECT_EQ(json["parameters"], 72 + 10 * 2 + 3 + 2 * 2 + 1 + 2 * 2);
  EXPECT_EQ(json["bytes"], 4 * (72 + 20 + 3 + 4 + 1) + 2 * 4);
  EXPECT_EQ(json["dtypes"].size(), 3u);
  EXPECT_EQ(json["metadata"]["format"], "pt");
  EXPECT_EQ(look_at_file(path("x.safetensors"), true)["groups"].size(), 28u);

  const std::string text = printed({path("x.safetensors")});
  expect_has(text, {"x.safetensors: 28 tensors, 104 parameters, 408 bytes", "format: pt", "xxx ...",
                    "blocks.{0..11}.net.0.weight  F32   [2, 3]", "x 12               72"});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const std::string all = printed({path("x.safetensors"), "--all"});
  expect_has(all, {"blocks.10.net.0.weight"});
  EXPECT_EQ(all.find('\x1b'), std::string::npos);
  EXPECT_EQ(Json::parse(printed({path("x.safetensors"), "--json"})), json);
}

TEST_F(Inspect, KeyListsAreToldByTheirDensity) {
  lists::KeyListsBuilder builder(1, 3, 20, {0, 4, 10});
  const std::vector<std::int32_t> two = {3, 5}, five = {0, 1, 2, 3, 19};
  builder.add(two);
  builder.add(five);
  builder.add_dense_head();
  builder.add(two);
  builder.add({});
  lists::save(lists::OrderedLists(builder.finish(), {}, 64), path("lists.safetensors"));
  const Json json = look_at_file(path("lists.safetensors"), true);
  EXPECT_EQ(json["kind"], "key lists");
  EXPECT_EQ(json["queries"], 10);
  EXPECT_EQ(json["order"], "not said");
  EXPECT_EQ(json["head_dim"], 64);
  EXPECT_EQ(json["groups"], (Json{{"count", 2}, {"least", 4}, {"most", 6}}));
  EXPECT_EQ(json["lists"]["least"], 0);
  EXPECT_EQ(json["lists"]["most"], 20);
  EXPECT_EQ(json["dense_heads"], 1);
  EXPECT_NEAR(json["density"].get<double>(), (2 * 4 + 5 * 6 + 20 * 10 + 2 * 4) / 600.0, 1e-12);
  EXPECT_EQ(json["of_heads"], Json::array({{38 / 200.0, 1.0, 8 / 200.0}}));
  EXPECT_EQ(json["density_of_heads"]["median"], 38 / 200.0);
  expect_has(printed({path("lists.safetensors")}),
             {"key lists", "batch 1, 3 heads, 10 queries, 20 keys", "in raster order, it is assumed; head dimension 64",
              "least 4.00 %, median 19.00 %, most 100.00 %"});
}

TEST_F(Inspect, EveryFixtureIsAModelThatFits) {
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    const Json json = look_at_folder(entry.path());
    EXPECT_EQ(json["kind"], "model");
    EXPECT_EQ(json["fits"], true) << json.dump(2);
  }
  const Json json = look_at_folder(kFixtures + "/wan-head24-shards");
  EXPECT_EQ(json["family"], "wan");
  EXPECT_EQ(json["width"], 24);
  EXPECT_EQ(json["out_channels"], 6);
  EXPECT_EQ(json["files"].size(), 5u);  // three shards, in and expected
  expect_has(printed({kFixtures + "/stdit3"}), {": stdit3, 18,548 parameters, 18,448 of them trained",
                                                "1 pair of blocks, width 16 (2 heads of 8)", "every tensor is there"});
}

TEST_F(Inspect, AModelThatDoesNotFitSaysWhy) {
  fs::copy(kFixtures + "/wan-head16", path("model"));
  const std::vector<float> numbers(3);
  SafetensorsWriter writer;
  writer.add("proj_out.bias", {3}, numbers);
  writer.write(path("model/diffusion_pytorch_model.safetensors"));
  const Json json = look_at_folder(path("model"));
  EXPECT_EQ(json["fits"], false);
  expect_has(printed({path("model")}), {"do not fit:", "42 tensors do not fit the model",
                                        "patch_embedding.weight is missing", "... and 30 more"});
  write_file_atomically(path("model/diffusion_pytorch_model.safetensors"), "torn");
  EXPECT_EQ(look_at_folder(path("model"))["fits"], false);
  fs::remove(path("model/diffusion_pytorch_model.safetensors"));
  expect_has(look_at_folder(path("model"))["problems"].dump(), {"no weights"});
  write_file_atomically(path("model/config.json"), "{}");
  EXPECT_EQ(code(path("model")), 2);
}

TEST_F(Inspect, ARunSaysHowFarItIs) {
  fs::create_directories(path("run"));
  write_file_atomically(path("run/config.toml"), "[train]\nsteps = 500\n");
  Json json = look_at_folder(path("run"));
  EXPECT_EQ(json["step"], 0);
  EXPECT_EQ(json["steps"], 500);
  EXPECT_TRUE(json["latest"].is_null() && json["metrics"].is_null() && json["model"].is_null());
  expect_has(printed({path("run")}), {"a run, 0 of 500 steps", "none yet"});

  write_file_atomically(path("run/metrics.jsonl"),
                        "{\"step\":299,\"loss\":0.5}\n{\"step\":300,\"loss\":0.25,\"lr\":null}\n{\"step\":3");
  for (const char* step : {"step-000100", "step-000200"}) {
    const std::string folder = path(std::string("run/checkpoints/") + step);
    fs::create_directories(folder);
    fs::copy(kFixtures + "/latte-zoom/config.json", folder);
    fs::copy(kFixtures + "/latte-zoom/diffusion_pytorch_model.safetensors", folder);
    write_file_atomically(folder + "/state.json", R"({"step": 200, "data_position": 800})");
  }
  fs::create_directories(path("run/checkpoints/.writing"));
  fs::create_directory_symlink("checkpoints/step-000200", path("run/latest"));
  json = look_at_folder(path("run"));
  EXPECT_EQ(json["step"], 300);
  EXPECT_EQ(json["checkpoints"], (Json{"step-000100", "step-000200"}));
  EXPECT_EQ(json["latest"], "step-000200");
  EXPECT_EQ(json["metrics"], (Json{{"step", 300}, {"loss", 0.25}, {"lr", nullptr}}));
  EXPECT_EQ(json["model"]["family"], "latte");
  EXPECT_EQ(json["model"]["fits"], true);
  expect_has(printed({path("run")}), {"a run, 300 of 500 steps", "step 300, loss 0.25, lr not a number",
                                      "the latest is step-000200", "step-000200: latte, "});
  EXPECT_EQ(Json::parse(printed({path("run"), "--json"})), json);
}

TEST_F(Inspect, WhatIsNoneOfThemIsAMistake) {
  EXPECT_EQ(code(path("nothing")), 2);
  EXPECT_NE(message_of([&] { look_at_folder(folder_); }).find("it is empty | name a .safetensors file"),
            std::string::npos);
  EXPECT_EQ(code(folder_), 2);
  write_file_atomically(path("x.safetensors"), "not tensors");
  EXPECT_EQ(code(path("x.safetensors")), 2);
  fs::create_directories(path("pipeline/transformer"));
  fs::copy(kFixtures + "/latte-zoom/config.json", path("pipeline/transformer"));
  expect_has(message_of([&] { look_at_folder(path("pipeline")); }), {"it holds a whole pipeline", "/transformer"});
}

// Run files of published models: every key is known, and the model is one.
TEST(Configs, EveryRunFileHasKnownKeysOnly) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(REEL_SOURCE_DIR "/configs")) {
    SCOPED_TRACE(entry.path());
    const Toml toml = Toml::load(entry.path());
    Settings settings(toml);
    train::RunConfig config;
    train::visit(settings, config);
    EXPECT_EQ(message_of([&] { toml.check_all_used(); }), "no error");
    EXPECT_EQ(config.video.height % config.model.patch[1], 0);
    EXPECT_EQ(config.video.width % config.model.patch[2], 0);
    ++files;
  }
  EXPECT_GE(files, 8u);
}

}  // namespace
}  // namespace reel::app
