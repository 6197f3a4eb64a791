// Training and sampling with attention that is sparse: runs that are killed, what they leave behind, what they refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "reel/attention/testing.h"
#include "reel/base/testing.h"
#include "reel/cost/machine.h"
#include "reel/files/file.h"
#include "reel/kernels/cpu.h"
#include "reel/report/metrics.h"
#include "reel/train/checkpoint.h"
#include "reel/train/run.h"
#include "reel/train/sampling.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

namespace fs = std::filesystem;
using lists::KeyLists;
using testing::last_step;
using testing::Process;
using testing::small_run;

// 4 x 4 x 4 tokens in 8 groups. Every step is looked at; heads turn sparse one after the other, from step 6 to 8.
RunConfig config(const std::string& mode, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"model.layers=2",         "video.frames=4",           "video.height=16",
                                  "video.width=16",         "sparsity.mode=" + mode,    "sparsity.group=[2, 2, 2]",
                                  "sparsity.mass=0.5",      "sparsity.break_even=0.45", "sparsity.profile_every=5",
                                  "sparsity.start=6",       "train.steps=14",           "train.checkpoint_every=2",
                                  "train.validate_every=7", "train.sample_every=9",     "data.validation=2"};
  all.insert(all.end(), more.begin(), more.end());
  return small_run("wan", all);
}

double metric(const std::string& run, std::int64_t step, const char* name) {
  for (const auto& row : report::read_metrics(run + "/metrics.jsonl").rows) {
    if (row.step == step && row.values.contains(name)) return row.value(name);
  }
  return std::nan("");
}

bool same(const KeyLists& a, const KeyLists& b) {
  return a.batch == b.batch && a.heads == b.heads && a.keys_tokens == b.keys_tokens && a.granularity == b.granularity &&
         a.group_starts == b.group_starts && a.offsets == b.offsets && a.keys == b.keys &&
         a.dense_heads == b.dense_heads;
}

class SparseRun : public testing::Files {
 protected:
  int run_to_end(const RunConfig& c, const std::string& name, bool resume, const std::string& masks = "",
                 std::int64_t every = 1) const {
    Process process(path(name + ".log"), [&] { return run(c, {path(name), resume, masks, every}) ? 0 : 1; });
    return process.wait();
  }
  std::string log(const std::string& name) const { return read_file(path(name + ".log")); }

  // Weights, moments, decisions and predictor, samples, and the lists and numbers of every step.
  void expect_same_end(const std::string& a, const std::string& b) const {
    for (const char* file : {"diffusion_pytorch_model", "ema", "optimizer", "sparsity"}) {
      const std::string name = fmt::format("/latest/{}.safetensors", file);
      EXPECT_TRUE(read_file(path(a) + name) == read_file(path(b) + name)) << name;
    }
    for (const auto& entry : fs::directory_iterator(path(a + "/samples"))) {
      EXPECT_TRUE(read_file(entry.path()) == read_file(path(b + "/samples/") + entry.path().filename().string()));
    }
    const auto of_a = report::read_metrics(path(a + "/metrics.jsonl")).rows,
               of_b = report::read_metrics(path(b + "/metrics.jsonl")).rows;
    ASSERT_EQ(of_a.size(), of_b.size());
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      for (const char* name : {"loss", "validation_loss", "gradient_norm", "kept_keys", "sparse_heads"}) {
        const double x = of_a[i].value(name), y = of_b[i].value(name);
        EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << name << " of step " << i << ": " << x << ", " << y;
      }
    }
    EXPECT_EQ(read_file(path(a + "/sparsity.jsonl")), read_file(path(b + "/sparsity.jsonl")));
  }
};

// Killed before anything is sparse, while heads turn and when they have; each time with another number of threads. As
// in run_test.cpp it would run for ever, and how far it came is how far the other one has to go.
TEST_F(SparseRun, KilledInEveryStageAndResumedEndsWithTheSameBits) {
  SCOPED_TRACE(fmt::format("REEL_TEST_SEED={}", attention::test_seed()));
  const Random random(attention::test_seed());
  for (const char* mode : {"dynamic", "static", "random"}) {
    SCOPED_TRACE(mode);
    const std::string killed = fmt::format("killed {}", mode), straight = fmt::format("straight {}", mode);
    int threads = 0;
    for (const std::int64_t step : {3, 6, 9}) {
      const RunConfig c = config(mode, {"train.steps=100000", fmt::format("train.threads={}", ++threads)});
      Process process(path(killed + ".log"), [&] { return run(c, {path(killed), true}) ? 0 : 1; });
      ASSERT_TRUE(process.wait_until([&] { return last_step(path(killed)) >= step; })) << log(killed);
      ::usleep(static_cast<useconds_t>(random.below(static_cast<std::uint64_t>(step), 5000)));
      process.send(SIGKILL);
      EXPECT_EQ(process.wait(), -SIGKILL) << log(killed);
    }
    const std::string steps = fmt::format("train.steps={}", last_step(path(killed)) + 3);
    ASSERT_EQ(run_to_end(config(mode, {steps, "train.threads=2"}), killed, true), 0) << log(killed);
    ASSERT_EQ(run_to_end(config(mode, {steps}), straight, false), 0) << log(straight);
    EXPECT_EQ(metric(path(straight), 4, "kept_keys"), 1);
    EXPECT_LT(metric(path(straight), 10, "kept_keys"), 0.9);
    expect_same_end(straight, killed);
  }
}

TEST_F(SparseRun, DumpedListsAreThoseOfTheStep) {
  const RunConfig c = config("dynamic", {"train.validate_every=0", "train.samples=0", "train.steps=9"});
  ASSERT_EQ(run_to_end(c, "run", false, path("masks"), 3), 0) << log("run");
  // The same steps without a folder.
  testing::Clips clips(c);
  Threads threads(1);
  Trainer trainer(c, threads);
  std::map<int, KeyLists> lists;
  trainer.sparsity()->on_lists = [&](int layer, const KeyLists& each) { lists[layer] = each; };
  for (int step = 1; step <= 9; ++step) {
    trainer.step([&] { return clips(); });
    for (const int layer : {0, 1}) {
      const std::string file = path(fmt::format("masks/step-{:06}.layer-{}.safetensors", step, layer));
      ASSERT_EQ(fs::exists(file), step % 3 == 0) << file;
      if (step % 3 == 0) {
        const lists::OrderedLists dumped = lists::load_key_lists(file);
        EXPECT_TRUE(same(dumped, lists[layer])) << file;
        EXPECT_EQ(dumped.order, token_order(c).raster);
        EXPECT_FALSE(dumped.in_raster_order());
        EXPECT_EQ(dumped.head_dim, c.model.head_dim);
      }
    }
  }
  EXPECT_LT(lists[0].density(), 1);
  EXPECT_EQ(message_of([&] {
              run(config("off"), {path("off"), false, path("masks")});
            }),
            "there are no lists to write: sparsity.mode is off | add --set sparsity.mode=dynamic");
}

TEST_F(SparseRun, RecomputingTrainsTheSameWeights) {
  std::vector<std::vector<float>> weights;
  for (const char* recompute : {"false", "true"}) {
    const RunConfig c = config("dynamic", {fmt::format("train.recompute={}", recompute), "train.accumulate=2"});
    testing::Clips clips(c);
    Threads threads(1);
    Trainer trainer(c, threads);
    StepReport last;
    for (int step = 0; step < 9; ++step) last = trainer.step([&] { return clips(); });
    EXPECT_LT(last.kept, 0.9);
    weights.push_back(testing::copy_of(trainer.model().parameters().trained_values()));
  }
  testing::expect_same_bits(weights[0], weights[1]);
}

TEST_F(SparseRun, HeadsMustGainMoreThanALittleUnlessABudgetIsAskedFor) {
  setenv("REEL_MACHINE", path("machine.toml").c_str(), 1);
  write_file_atomically(cost::break_even_path(),
                        fmt::format("instructions,tokens,head_dim,share,tile_cost\n{},1024,{},0.9,1\n",
                                    kernels::target(), config("dynamic").model.head_dim));
  Threads threads(1);
  const auto share = [&](const std::vector<std::string>& more) {
    std::vector<std::string> set = {"sparsity.break_even=0"};
    set.insert(set.end(), more.begin(), more.end());
    const RunConfig c = config("dynamic", set);
    return sparsity_options(c, step_need(c), threads).break_even.share;
  };
  EXPECT_FLOAT_EQ(share({}), 0.3f);
  EXPECT_FLOAT_EQ(share({"sparsity.worth=2"}), 0.45f);
  EXPECT_FLOAT_EQ(share({"sparsity.keys=0.6"}), 0.9f);
  unsetenv("REEL_MACHINE");
}

// A model in which attention matters, after some steps.
TEST_F(SparseRun, SamplesFollowTheSeedReuseListsAndAreNearTheDenseOnes) {
  const RunConfig c = config("dynamic", {"sparsity.mass=0.9", "sparsity.break_even=1"});
  testing::Trained trained(c, 9);
  sparsity::Controller& controller = *trained.trainer.sparsity();
  EXPECT_GT(controller.sparse_share(), 0);
  const Buffer<float> text = trained.clips.source->text_of(trained.clips.source->labels()[0]);
  const auto sample = [&](std::uint64_t seed, sparsity::Controller* with) {
    tape::Pool pool;
    std::vector<float> clip(format_of(c).values());
    sample_clips(c, trained.trainer.model(), pool, trained.threads, text,
                 {.steps = 12, .seed = seed, .sparsity = with, .trained_steps = 9}, clip);
    return clip;
  };
  const std::vector<float> first = sample(1, &controller), dense = sample(1, nullptr);
  EXPECT_GT(controller.reused(), 0);
  const std::vector<float> other = sample(2, &controller);
  testing::expect_same_bits(sample(1, &controller), first);  // whatever was sampled before
  double difference = 0, noise = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    difference += std::pow(static_cast<double>(first[i] - dense[i]), 2);
    noise += std::pow(static_cast<double>(first[i] - other[i]), 2);
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.1 * noise) << "another seed differs more";
}

TEST_F(SparseRun, AnUnfitRunFileIsAnErrorThatSaysWhatToDo) {
  const auto message = [](const std::string& family, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"sparsity.mode=dynamic", "model.layers=2"};
    all.insert(all.end(), more.begin(), more.end());
    return message_of([&] { small_run(family, all); });
  };
  const auto expect = [](const std::string& found, const std::string& wanted) {
    EXPECT_NE(found.find(wanted), std::string::npos) << found << "\n  expected " << wanted;
  };
  EXPECT_EQ(message("wan", {}), "no error");
  for (const char* family : {"stdit3", "latte"}) {
    expect(message(family, {}), fmt::format("sparsity.mode: the family {} has no full 3-D attention", family));
    EXPECT_EQ(message(family, {"sparsity.mode=off"}), "no error");
  }
  expect(message("wan", {"sparsity.layer_keys=[0.5]"}), "1 shares for 2 layers | give one for each layer");
  expect(message("wan", {"sparsity.layer_keys=[0.5, 0]"}), "0 is not a share");
  expect(message("wan", {"sparsity.layer_keys=[0.5, 1.5]"}), "1.5 is not a share");
  expect(message("wan", {"sparsity.dense_layers=[2]"}), "there is no layer 2 | layers are 0 to 1");
  expect(message("wan", {"sparsity.keep=[0, 2]"}), "there is no frame 2 of tokens | frames are 0 to 1");
  expect(message("wan", {"sparsity.keep=[-1]"}), "there is no frame -1");
  expect(message("wan", {"sparsity.group=[0, 4, 4]"}), "a group has 1 to 1024 tokens");
  expect(message("wan", {"sparsity.group=[16, 16, 8]"}), "a group has 1 to 1024 tokens");
  expect(message("wan", {"sparsity.group=[4, 4]"}), "sparsity.group must have 3 numbers, found 2");
  expect(message("wan", {"sparsity.mass=1.5"}), "sparsity.mass");
  expect(message("wan", {"sparsity.mode=sometimes"}), "sparsity.mode");
  expect(message("wan", {"sparsity.keys=2"}), "sparsity.keys");
}

TEST_F(SparseRun, ADenseRunMayGoOnSparsely) {
  const RunConfig c = config("dynamic", {"train.steps=2", "train.samples=0", "train.validate_every=0"});
  ASSERT_EQ(run_to_end(c, "run", false), 0) << log("run");
  EXPECT_TRUE(fs::exists(path("run/latest/sparsity.safetensors")));
  // A dense run that is told to be sparse from now on.
  ASSERT_EQ(run_to_end(config("off", {"train.steps=2", "train.samples=0"}), "dense", false), 0) << log("dense");
  EXPECT_FALSE(fs::exists(path("dense/latest/sparsity.safetensors")));
  ASSERT_EQ(run_to_end(config("dynamic", {"train.steps=10"}), "dense", true), 0) << log("dense");
  EXPECT_LT(metric(path("dense"), 10, "kept_keys"), 0.9);
}

}  // namespace
}  // namespace reel::train
