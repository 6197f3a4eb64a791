// Training further from a model that somebody else has published, on latents that its encoder made.
#include <gtest/gtest.h>

#include <algorithm>

#include "reel/base/testing.h"
#include "reel/data/latents.h"
#include "reel/model/folder.h"
#include "reel/train/checkpoint.h"
#include "reel/train/run.h"
#include "reel/train/testing.h"

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
  // A run file that says nothing about the model but where it is, and four clips for it.
  void write(const std::string& folder, const std::string& more = "") const {
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
    write_file_atomically(path("run.toml"),
                          fmt::format("data = {{source = \"latents\", path = \"{}\", validation = 1}}\n"
                                      "video = {{frames = {}, height = {}, width = {}}}\n{}\n"
                                      "[train]\nstart_from = \"{}\"\nsteps = 1\nwarmup = 2\nema = 0.9\n"
                                      "samples = 1\nsample_steps = 2\nthreads = 1\n",
                                      path("data"), format.frames, format.height, format.width, more, folder));
  }
  RunConfig config(const std::vector<std::string>& more = {}) const {
    return load_run(path("run.toml"), more, latest_checkpoint(path("run")));
  }
  int train(const RunConfig& c, bool resume = false) const {
    return Process(path("log"), [&] { return run(c, {path("run"), resume}) ? 0 : 1; }).wait();
  }
};

TEST_F(StartFrom, BeginsWithTheWeightsOfTheFolderAndKeepsTheirNames) {
  for (const char* name : {"wan-head16", "wan-official", "wan-patch"}) {
    SCOPED_TRACE(name);
    const std::string folder = kFixtures + name;
    write(folder);
    const RunConfig c = config();
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
  write(kFixtures + "wan-head40-bf16");
  ASSERT_EQ(train(config()), 0) << read_file(path("log"));
  const SafetensorsFile file = SafetensorsFile::open(path("run/latest/diffusion_pytorch_model.safetensors"));
  for (const std::string& name : file.names()) EXPECT_EQ(file.info(name).dtype, Dtype::kF32) << name;
}

TEST_F(StartFrom, ARunGoesOnWhenTheFolderIsGone) {
  fs::copy(kFixtures + "wan-official", path("start"), fs::copy_options::recursive);
  write(path("start"));
  const double flops = step_need(config()).flops;
  ASSERT_EQ(train(config()), 0) << read_file(path("log"));
  const std::vector<std::string> names = tensors_of(path("run/latest/ema.safetensors"));
  fs::remove_all(path("start"));
  const RunConfig c = config({"train.steps=2"});
  EXPECT_EQ(step_need(c).flops, flops);
  ASSERT_EQ(train(c, true), 0) << read_file(path("log"));
  EXPECT_EQ(tensors_of(path("run/latest/ema.safetensors")), names);
  EXPECT_TRUE(model::load_config(path("run/latest")).official_names);
  EXPECT_EQ(model::load_config(path("run/latest")).text_tokens, 7);
}

TEST_F(StartFrom, AnotherModelIsOneErrorThatListsTensors) {
  const std::string message = message_of([&] {
    write(kFixtures + "wan-head16");
    const RunConfig c = config({"model.ffn=48"});
    Threads threads(1);
    Trainer trainer(c, threads);
  });
  EXPECT_NE(message.find("tensors do not fit the model | blocks.0.ffn.net.0.proj.weight is ["), std::string::npos)
      << message;
}

}  // namespace
}  // namespace reel::train
