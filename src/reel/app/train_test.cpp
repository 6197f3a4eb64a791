// reel train, reel sample and reel help config, as a user meets them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reel/app/testing.h"
#include "reel/data/folder.h"
#include "reel/data/video_file.h"
#include "reel/files/safetensors.h"
#include "reel/train/testing.h"

namespace reel::app {
namespace {

namespace fs = std::filesystem;
using testing::call;
using testing::reel;
using testing::Result;
using train::testing::Process;

// A mistake of the user: exit code 2 and these words.
void expect_mistake(const std::vector<std::string>& words, const std::vector<std::string>& said) {
  SCOPED_TRACE(fmt::format("reel {}", fmt::join(words, " ")));
  const Result result = reel(words);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err.find("reel: "), 0u) << result.err;
  for (const std::string& each : said)
    EXPECT_NE(result.err.find(each), std::string::npos) << each << "\n" << result.err;
}

constexpr const char* kRunFile = R"([model]
layers = 1
heads = 2
head_dim = 8
patch = [1, 4, 4]

[video]
frames = 2
height = 8
width = 8

[data]
validation = 2

[train]
steps = 3
batch = 2
ema = 0.9
threads = 1
samples = 1
sample_steps = 2
)";

class Train : public train::testing::Files {
 protected:
  Train() : file_(path("tiny.toml")), run_(path("run")) { write_file_atomically(file_, kRunFile); }

  const std::string file_, run_;
};

TEST_F(Train, RefusesATrafficFileItCouldNotWriteBeforeItTrains) {
  expect_mistake({"train", file_, "--out", run_, "--traffic", path("none") + "/traffic.json"},
                 {"--traffic", "there is no folder"});
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(Train, WritesARunAndSaysSo) {
  const Result result = reel({"train", file_, "--out", run_, "--set", "train.steps=2", "--set", "train.lr=0.01"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("wan: 1 layers, width 16, 16 tokens a step"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("memory: "), std::string::npos);
  EXPECT_NE(result.out.find(fmt::format("done at step 2 of 2: {0}/latest, {0}/report.html", run_)), std::string::npos);
  const train::RunConfig config = train::load_run(run_ + "/config.toml", {});
  EXPECT_EQ(config.train.steps, 2);
  EXPECT_EQ(config.optim.lr, 0.01);
  for (const char* each : {"metrics.jsonl", "report.html", "latest/state.json", "samples/step-000002-0.png"}) {
    EXPECT_TRUE(fs::exists(run_ + "/" + each)) << each;
  }
  expect_mistake({"train", file_, "--out", run_}, {"this folder already holds a run", "--resume"});
  const Result longer = reel({"train", file_, "--out", run_, "--resume"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.out.find("resumed at step 2"), std::string::npos) << longer.out;
}

TEST_F(Train, ARunIsCalledAsItsFolderHoweverThatIsWritten) {
  ASSERT_EQ(reel({"train", file_, "--out", run_ + "/"}).code, 0);
  EXPECT_NE(read_file(run_ + "/report.html").find("<title>run"), std::string::npos);
  const Result result = reel({"sample", run_ + "/", "--out", path("a.gif"), "--steps", "1"});
  EXPECT_NE(result.out.find("1 clip of run, 1 steps, averaged weights of step-000003"), std::string::npos)
      << result.out;
}

TEST_F(Train, ResumeStartsWhereThereIsNoCheckpointAndTheFolderHasADefault) {
  Process process(path("log"), [&] {
    fs::current_path(path(""));
    return call({"train", "tiny.toml", "--resume"});
  });
  EXPECT_EQ(process.wait(), 0) << read_file(path("log"));
  EXPECT_TRUE(fs::exists(path("runs/tiny/latest/state.json")));
}

TEST_F(Train, MistakesAreNamedWithTheirPlace) {
  expect_mistake({"train"}, {"config", "see 'reel help train'"});
  expect_mistake({"train", path("no.toml")}, {"no.toml"});
  expect_mistake({"train", file_, "--out", run_, "--set", "train.stpes=3"},
                 {"--set train.stpes=3: unknown key 'train.stpes'", "did you mean 'train.steps'?"});
  expect_mistake({"train", file_, "--out", run_, "--set", "video.width=10"},
                 {"video.width = 10 is not a multiple of the patch, 4", "use 8 or 12"});
  expect_mistake({"train", file_, "--out", run_, "--set", "train.steps"}, {"train.steps"});
  expect_mistake({"train", file_, "--out", run_, "--resmue"}, {"'--resmue' is not known", "did you mean '--resume'?"});
  write_file_atomically(file_, std::string(kRunFile) + "leraning_rate = 3\n");
  expect_mistake({"train", file_, "--out", run_},
                 {fmt::format("{}:{}: unknown key 'train.leraning_rate'", file_,
                              std::count(kRunFile, kRunFile + std::string(kRunFile).size(), '\n') + 1)});
  EXPECT_FALSE(fs::exists(run_)) << "nothing is made before the file is sound";
}

TEST_F(Train, MoreMemoryThanThereIsIsRefusedBeforeAnythingIsMade) {
  expect_mistake(
      {"train", file_, "--out", run_, "--set", "model.layers=40", "--set", "model.heads=64", "--set",
       "model.head_dim=128", "--set", "video.frames=64", "--set", "video.height=64", "--set", "video.width=64"},
      {"this run needs", "are available", "train.recompute = true brings it to", "still too much"});
  EXPECT_FALSE(fs::exists(run_));
}

// 0: the run was asked to stop and has kept everything, which is what schedulers that send SIGTERM take for success.
TEST_F(Train, ASignalEndsItWithZeroAndACheckpoint) {
  Process process(path("log"), [&] { return call({"train", file_, "--out", run_, "--set", "train.steps=1000000"}); });
  ASSERT_TRUE(process.wait_until([&] {
    return fs::exists(run_ + "/metrics.jsonl") && fs::file_size(run_ + "/metrics.jsonl") > 500;
  })) << read_file(path("log"));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << read_file(path("log"));
  EXPECT_TRUE(fs::exists(run_ + "/latest/state.json"));
  EXPECT_NE(read_file(path("log")).find("stopped at step"), std::string::npos) << read_file(path("log"));
}

TEST_F(Train, TheSecondProcessInAFolderIsTurnedAway) {
  Process process(path("log"), [&] { return call({"train", file_, "--out", run_, "--set", "train.steps=1000000"}); });
  ASSERT_TRUE(process.wait_until([&] { return fs::exists(run_ + "/config.toml"); })) << read_file(path("log"));
  for (const bool resume : {false, true}) {
    std::vector<std::string> words = {"train", file_, "--out", run_};
    if (resume) words.push_back("--resume");
    expect_mistake(words, {run_ + ": another process trains there", "choose another --out"});
  }
}

class Sample : public Train {
 protected:
  Sample() { EXPECT_EQ(reel({"train", file_, "--out", run_}).code, 0); }

  // The bytes of a clip.
  std::string sample(const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", run_, "--out", path(name)});
    if (std::find(more.begin(), more.end(), "--steps") == more.end()) more.insert(more.end(), {"--steps", "2"});
    const Result result = reel(more);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find(path(name) + ": "), std::string::npos) << result.out;
    return fs::exists(path(name)) ? read_file(path(name)) : "";
  }
};

TEST_F(Sample, TheSameSeedGivesTheSameBytesInEveryFormat) {
  for (const std::string name : {"a.gif", "a.png", "a.safetensors", "a.mp4"}) {
    SCOPED_TRACE(name);
    if (name == "a.mp4" && !data::video_supported()) {
      expect_mistake({"sample", run_, "--out", path(name)}, {"no FFmpeg", "clip.gif"});
      continue;
    }
    const std::string bytes = sample(name, {"--label", "3", "--seed", "7"});
    EXPECT_FALSE(bytes.empty());
    EXPECT_TRUE(sample(name, {"--label", "3", "--seed", "7", "--threads", "3"}) == bytes);
    EXPECT_FALSE(sample(name, {"--label", "3", "--seed", "8"}) == bytes);
  }
}

TEST_F(Sample, FilesAreWhatTheirNamesSay) {
  sample("a.gif", {"--label", "0"});
  sample("a.png", {"--label", "0"});
  EXPECT_EQ(read_file(path("a.gif")).substr(0, 4), "GIF8");
  EXPECT_EQ(read_file(path("a.png")).substr(1, 3), "PNG");
  sample("a.safetensors", {"--label", "0", "--count", "3"});
  const SafetensorsFile file = SafetensorsFile::open(path("a.safetensors"));
  EXPECT_EQ(file.info("sample").shape, (std::vector<std::int64_t>{3, 3, 2, 8, 8}));
  if (!data::video_supported()) return;
  sample("a.mp4", {"--label", "0", "--count", "2"});
  EXPECT_EQ(data::read_video(path("a.mp4")).frames.size(), 2u);
}

TEST_F(Sample, EveryOptionMatters) {
  const std::string usual = sample("a.safetensors", {"--label", "3"});
  const std::string label = data::make_source({}, {3, 2, 8, 8, 4, 64})->labels()[3];
  EXPECT_TRUE(sample("b.safetensors", {"--label", label}) == usual) << label;
  EXPECT_TRUE(sample("b.safetensors", {"--prompt", label}) == usual);
  EXPECT_FALSE(sample("b.safetensors", {"--label", "4"}) == usual);
  EXPECT_FALSE(sample("b.safetensors", {}) == usual);
  EXPECT_FALSE(sample("b.safetensors", {"--label", "3", "--last"}) == usual);
  EXPECT_FALSE(sample("b.safetensors", {"--label", "3", "--guidance", "1"}) == usual);
  EXPECT_FALSE(sample("b.safetensors", {"--label", "3", "--steps", "3"}) == usual);
  // The first of several clips is the one that is alone otherwise.
  sample("two.safetensors", {"--label", "3", "--count", "2"});
  const Buffer<float> one = SafetensorsFile::open(path("a.safetensors")).read_f32("sample");
  const Buffer<float> two = SafetensorsFile::open(path("two.safetensors")).read_f32("sample");
  train::testing::expect_close(std::span(two).first(one.size()), train::testing::doubles(one), 1e-5, 1e-5);
}

TEST_F(Sample, MistakesAreExplained) {
  const std::string gif = path("a.gif");
  expect_mistake({"sample"}, {"see 'reel help sample'"});
  expect_mistake({"sample", path("none"), "--out", gif}, {path("none") + ": not a run", "reel train"});
  expect_mistake({"sample", run_, "--out", path("a.avi")}, {"a.avi: unknown kind of file", ".mp4, .gif, .png"});
  expect_mistake({"sample", run_, "--out", gif, "--label", "99"}, {"--label is 99", "use 0 to "});
  expect_mistake({"sample", run_, "--out", gif, "--label", "-1"}, {"--label is -1"});
  expect_mistake({"sample", run_, "--out", gif, "--label", "sqare right"},
                 {"there is no label 'sqare right'", "did you mean"});
  expect_mistake({"sample", run_, "--out", gif, "--label", "1", "--prompt", "red"}, {"--label and --prompt"});
  expect_mistake({"sample", run_, "--out", gif, "--steps", "0"}, {"steps"});
  expect_mistake({"sample", run_, "--out", path("no/folder/a.gif"), "--steps", "1"}, {"no/folder"});
  fs::remove(run_ + "/latest");
  expect_mistake({"sample", run_, "--out", gif}, {run_ + ": no checkpoint yet", "train.checkpoint_every"});
}

TEST_F(Sample, GivenFramesComeFromHeldOutClipsOrElseFromTheOthers) {
  for (const char* held_out : {"data.validation=2", "data.validation=0"}) {
    SCOPED_TRACE(held_out);
    fs::remove_all(run_);
    ASSERT_EQ(reel({"train", file_, "--out", run_, "--set", "diffusion.conditioning_frames=1", "--set", held_out}).code,
              0);
    sample("a.safetensors", {});
    const Buffer<float> values = SafetensorsFile::open(path("a.safetensors")).read_f32("sample");
    const train::RunConfig config = train::load_run(run_ + "/config.toml", {});
    const auto source = data::make_source(config.data, train::format_of(config));
    const bool held = source->size(data::Split::kValidation) > 0;
    data::Clip clip;
    ASSERT_TRUE(source->read(held ? data::Split::kValidation : data::Split::kTraining, 0, clip));
    for (std::size_t channel = 0; channel < 3; ++channel) {  // [channels][frames][8][8]
      const std::size_t first = channel * 2 * 64;
      train::testing::expect_same_bits(std::span(values).subspan(first, 64), std::span(clip.values).subspan(first, 64));
    }
  }
}

// Labels and captions are those of the data, so the data has to be there: an Error that says which folder is missing.
TEST_F(Sample, NeedsTheDataThatTheRunWasTrainedOn) {
  if (!data::video_supported()) GTEST_SKIP() << "this build has no FFmpeg";
  fs::create_directories(path("videos"));
  for (int i = 0; i < 3; ++i) {
    const std::vector<data::Image> frames(4, data::Image(16, 16, static_cast<std::uint8_t>(60 * i)));
    data::write_mp4(path(fmt::format("videos/{}.mp4", i)), frames, 8);
  }
  fs::remove_all(run_);
  ASSERT_EQ(reel({"train", file_, "--out", run_, "--set", "data.source=folder", "--set", "data.path=" + path("videos"),
                  "--set", "data.validation=1"})
                .code,
            0);
  sample("a.gif", {});
  fs::rename(path("videos"), path("moved"));
  expect_mistake({"sample", run_, "--out", path("a.gif")}, {path("videos")});
}

// The same for a run that began with another model, which may be gone: its checkpoint describes it.
TEST_F(Train, GoesOnAndSamplesWithoutTheModelThatItBeganWith) {
  ASSERT_EQ(reel({"train", file_, "--out", run_}).code, 0);
  fs::copy(run_ + "/latest/", path("start"), fs::copy_options::recursive);
  const std::string further = path("further.toml"), out = path("further"), text = kRunFile;
  write_file_atomically(further, text.substr(text.find("[video]")) + "start_from = \"" + path("start") + "\"\n");
  ASSERT_EQ(reel({"train", further, "--out", out}).code, 0);
  fs::remove_all(path("start"));
  const Result longer = reel({"train", further, "--out", out, "--resume", "--set", "train.steps=4"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.out.find("wan: 1 layers, width 16, 16 tokens a step"), std::string::npos) << longer.out;
  const Result result = reel({"sample", out, "--out", path("a.gif"), "--steps", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(HelpConfig, ListsEveryKeyOfEverySection) {
  train::RunConfig config;
  Settings settings;
  train::visit(settings, config);
  const Result all = reel({"help", "config"}), one = reel({"help", "config", "train"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(one.code, 0);
  EXPECT_GT(settings.keys().size(), 50u);
  for (const Settings::Key& key : settings.keys()) {
    const bool section = key.path.find('.') == std::string::npos;
    const std::string line = section ? "[" + key.path + "]  " + key.meaning : "\n  " + key.path + " ";
    EXPECT_NE(all.out.find(line), std::string::npos) << line;
    const bool inside = key.path == "train" || key.path.starts_with("train.");
    EXPECT_EQ(one.out.find(line) != std::string::npos, inside) << line;
  }
  for (const char* section : {"[model]", "[video]", "[data]", "[diffusion]", "[train]"}) {
    EXPECT_NE(all.out.find(section), std::string::npos) << section;
  }
}

TEST(HelpConfig, AnUnknownSectionNamesTheNearest) {
  expect_mistake({"help", "config", "trian"}, {"there is no section 'trian'", "did you mean 'train'?"});
  expect_mistake({"help", "config", "nothing"}, {"the sections are model, video, data, diffusion, sparsity, train"});
}

}  // namespace
}  // namespace reel::app
