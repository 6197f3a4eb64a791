// Training further from a model that somebody else has published, on latents that its encoder made.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing.h"
#include "data/latents.h"
#include "model/folder.h"
#include "train/checkpoint.h"
#include "train/run.h"
#include "train/testing.h"

namespace reel::train {
namespace {

namespace fs = std::filesystem;
using testing::expect_same_bits;
using testing::Process;

const std::string kFixtures = REEL_SOURCE_DIR "/tests/oracle/fixtures/";

std::vector<std::string> tensors_of(const std::string& file) {
  std::vector<std::string> names = SafetensorsFile::open(file).names();
  std::sort(names.begin(), names.end());
  return names;
}

class StartFrom : public testing::Files {
 protected:
  // A run file that describes the model of the folder and four clips for it.
  RunConfig config(const std::string& folder, const std::vector<std::string>& more = {}) {
    const model::ModelConfig m = model::load_config(folder);
    const data::Format format{m.channels, 2 * m.patch[0], 2 * m.patch[1], 2 * m.patch[2], 7, m.text_width};
    std::vector<data::Clip> clips(4);
    for (std::size_t i = 0; i < clips.size(); ++i) {
      clips[i].fit(format);
      Random(1, i).fill_normal(clips[i].values);
      Random(2, i).fill_normal(clips[i].text);
    }
    fs::create_directories(path("data"));
    data::write_latents(path("data/shard.safetensors"), clips, format);
    std::vector<std::string> all = {"data.source=latents", "data.path=" + path("data"), "data.validation=1"};
    const auto set = [&](const char* key, const auto& value) { all.push_back(fmt::format("{}={}", key, value)); };
    set("model.layers", m.layers);
    set("model.heads", m.heads);
    set("model.head_dim", m.head_dim);
    set("model.ffn", m.ffn);
    set("model.time_width", m.time_width);
    set("model.patch", fmt::format("[{}]", fmt::join(m.patch, ",")));
    set("model.cross_norm", m.cross_norm);
    set("video.frames", format.frames);
    set("video.height", format.height);
    set("video.width", format.width);
    set("train.start_from", folder);
    set("train.steps", 1);
    all.insert(all.end(), more.begin(), more.end());
    return testing::small_run("wan", all);
  }
  int train(const RunConfig& c, bool resume = false) {
    return Process(path("log"), [&] { return run(c, {path("run"), resume}) ? 0 : 1; }).wait();
  }
};

TEST_F(StartFrom, BeginsWithTheWeightsOfTheFolderAndKeepsTheirNames) {
  for (const char* name : {"wan-head16", "wan-official", "wan-patch"}) {
    SCOPED_TRACE(name);
    const std::string folder = kFixtures + name;
    const RunConfig c = config(folder);
    const auto start = model::load_model(folder, tape::Parameters::With::kValues);
    {
      Threads threads(1);
      Trainer trainer(c, threads);
      expect_same_bits(trainer.model().parameters().trained_values(), start->parameters().trained_values());
      expect_same_bits(trainer.optimizer().average(), start->parameters().trained_values());
    }
    ASSERT_EQ(train(c), 0) << read_file(path("log"));
    const std::string latest = path("run/latest");
    const std::vector<std::string> names = tensors_of(folder + "/diffusion_pytorch_model.safetensors");
    EXPECT_EQ(tensors_of(latest + "/diffusion_pytorch_model.safetensors"), names);
    EXPECT_EQ(tensors_of(latest + "/ema.safetensors"), names);
    const model::ModelConfig saved = model::load_config(latest);
    EXPECT_EQ(saved.official_names, start->config().official_names);
    EXPECT_EQ(saved.inner(), start->config().inner());
    // One step with a rate of 0.0005 moves a weight by that much.
    const auto after = model::load_model(latest, tape::Parameters::With::kValues);
    double most = 0;
    for (std::size_t i = 0; i < after->parameters().trained_floats(); ++i) {
      most = std::max(most, static_cast<double>(std::abs(after->parameters().trained_values()[i] -
                                                         start->parameters().trained_values()[i])));
    }
    EXPECT_NEAR(most, 0.0005, 0.0001);
    fs::remove_all(path("run"));
  }
}

TEST_F(StartFrom, HalfPrecisionBecomesF32) {
  ASSERT_EQ(train(config(kFixtures + "wan-head40-bf16")), 0) << read_file(path("log"));
  const SafetensorsFile file = SafetensorsFile::open(path("run/latest/diffusion_pytorch_model.safetensors"));
  for (const std::string& name : file.names()) EXPECT_EQ(file.info(name).dtype, Dtype::kF32) << name;
}

TEST_F(StartFrom, ARunGoesOnWhenTheFolderIsGone) {
  fs::copy(kFixtures + "wan-official", path("start"), fs::copy_options::recursive);
  ASSERT_EQ(train(config(path("start"))), 0) << read_file(path("log"));
  const std::vector<std::string> names = tensors_of(path("run/latest/ema.safetensors"));
  fs::rename(path("start"), path("gone"));
  const RunConfig c = config(path("gone"), {"train.steps=2", "train.start_from=" + path("start")});
  ASSERT_EQ(train(c, true), 0) << read_file(path("log"));
  EXPECT_EQ(tensors_of(path("run/latest/ema.safetensors")), names);
  EXPECT_TRUE(model::load_config(path("run/latest")).official_names);
}

TEST_F(StartFrom, AnotherModelIsOneErrorThatListsTensors) {
  const std::string message = message_of([&] {
    const RunConfig c = config(kFixtures + "wan-head16", {"model.ffn=48"});
    Threads threads(1);
    Trainer trainer(c, threads);
  });
  EXPECT_NE(message.find("tensors do not fit the model | blocks.0.ffn.net.0.proj.weight is ["), std::string::npos)
      << message;
}

}  // namespace
}  // namespace reel::train
