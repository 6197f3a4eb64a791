#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

using testing::Clips;
using testing::small_run;

// What a step holds in its pool, run for real.
double measured(const RunConfig& c, int steps) {
  Threads threads(2);
  Trainer trainer(c, threads);
  Clips clips(c);
  for (int i = 0; i < steps; ++i) trainer.step([&] { return clips(); });
  return static_cast<double>(trainer.pool().peak_bytes());
}

TEST(StepNeed, IsTheMemoryOfARealStepToTheByte) {
  for (const std::string& family : testing::kFamilies) {
    for (const char* recompute : {"train.recompute=false", "train.recompute=true"}) {
      SCOPED_TRACE(family + " " + recompute);
      const RunConfig c = small_run(family, {"model.layers=2", "video.frames=4", recompute});
      const StepNeed need = step_need(c);
      EXPECT_EQ(measured(c, 1), need.activations);
      EXPECT_EQ(measured(c, 3), need.activations);
      Threads threads(1);
      Trainer trainer(c, threads);
      tape::Parameters& parameters = trainer.model().parameters();
      EXPECT_EQ(need.weights, static_cast<double>(parameters.value_bytes()));
      EXPECT_EQ(need.gradients, static_cast<double>(parameters.gradients().size_bytes()));
      EXPECT_EQ(need.optimizer, static_cast<double>(trainer.optimizer().first_moment().size_bytes() +
                                                    trainer.optimizer().second_moment().size_bytes() +
                                                    trainer.optimizer().average().size_bytes()));
      EXPECT_EQ(need.bytes(), need.weights + need.gradients + need.optimizer + need.activations);
    }
  }
}

TEST(StepNeed, AccumulatedPassesAndGivenFramesNeedWhatIsPredicted) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    const RunConfig c = small_run(family, {"train.accumulate=3"});
    EXPECT_EQ(measured(c, 1), step_need(c).activations);
    if (family == "latte") continue;
    const RunConfig given = small_run(family, {"diffusion.conditioning_frames=1"});
    EXPECT_EQ(measured(given, 1), step_need(given).activations);
  }
}

TEST(StepNeed, RecomputeTakesLessMemoryAndCountsNoWorkTwice) {
  for (const std::string& family : testing::kFamilies) {
    SCOPED_TRACE(family);
    const RunConfig plain = small_run(family, {"model.layers=4"});
    const RunConfig again = small_run(family, {"model.layers=4", "train.recompute=true"});
    EXPECT_LT(step_need(again).activations, 0.7 * step_need(plain).activations);
    EXPECT_EQ(step_need(again).flops, step_need(plain).flops);
    EXPECT_EQ(step_need(again).self_attention_flops, step_need(plain).self_attention_flops);
  }
}

// A multiply-add counts two, backward twice what forward does (attention: 2.5 times), elementwise work is small beside.
TEST(StepNeed, ArithmeticOfWanIsWhatAHandCountGives) {
  const RunConfig c = small_run("wan", {"model.layers=4", "model.heads=8", "model.head_dim=64", "video.frames=8",
                                        "video.height=32", "video.width=32", "train.batch=3", "train.accumulate=2"});
  const double d = 512, n = 8 * 8 * 8, text = 4, clips = 6;
  const double linear = 2 * (6 * n * d * d + 2 * text * d * d + 2 * n * d * 4 * d);  // attentions, their text, mlp
  const double self = 4 * n * n * d, cross = 4 * n * text * d;
  const StepNeed need = step_need(c);
  EXPECT_EQ(need.self_attention_flops, clips * 4 * 3.5 * self);
  const double total = clips * 4 * (3 * linear + 3.5 * (self + cross));
  EXPECT_GT(need.flops, total);
  EXPECT_LT(need.flops, 1.05 * total);
  EXPECT_EQ(need.tokens, static_cast<std::int64_t>(clips * n));
}

// One real step, written down; what is not part of forward and backward left out.
std::vector<Record> recorded(const RunConfig& c, double* kept = nullptr) {
  Threads threads(2);
  Trainer trainer(c, threads, sparsity_options(c, step_need(c), threads));
  Clips clips(c);
  Recorder recorder;
  const StepReport report = trainer.step([&] { return clips(); }, &recorder);
  if (kept != nullptr) *kept = report.kept;
  std::vector<Record> records = recorder.records();
  std::erase_if(records, [](const Record& r) {
    return r.work.phase == Phase::kOptimizer || std::holds_alternative<work::Selection>(r.work.what);
  });
  return records;
}

// The text is as long as the clip: what lists leave out is left out of self-attention and of nothing else.
TEST(StepNeed, SparseSelfAttentionLeavesOutPairsOfItsOwnOnly) {
  const RunConfig c = small_run("wan", {"model.text_tokens=64", "video.frames=4", "video.height=16", "video.width=16",
                                        "sparsity.mode=window", "sparsity.keys=0.3", "sparsity.group=[2, 2, 2]"});
  double kept = 1;
  const std::vector<Record> sparse = recorded(c, &kept);
  Recorder ghost;
  const StepNeed need = step_need(c, 0, 1, &ghost);
  const Total self = total_of(ghost.records(), is_self_attention),
              cross = total_of(ghost.records(), is_cross_attention);
  const double left_out = self.flops - total_of(sparse, is_self_attention).flops;
  EXPECT_LT(kept, 0.5);
  EXPECT_NEAR((need.flops - need.flops_with(kept)) / left_out, 1, 1e-9);
  EXPECT_EQ(total_of(sparse, is_cross_attention).flops, cross.flops);
  EXPECT_EQ(total_of(sparse, is_product).flops, total_of(ghost.records(), is_product).flops);
  EXPECT_EQ(cross.flops, self.flops) << "64 tokens each";
}

// 64 tokens in 8 groups of 8; the profile looks at 4 of them.
TEST(StepRecord, ProfileChoiceOfKeysAndOptimizerHaveTheirSizes) {
  const RunConfig c = small_run(
      "wan", {"video.frames=4", "video.height=16", "video.width=16", "sparsity.mode=dynamic", "sparsity.keys=0.4",
              "sparsity.group=[2, 2, 2]", "sparsity.break_even=1", "sparsity.profile_every=1"});
  Threads threads(1);
  Trainer trainer(c, threads, sparsity_options(c, step_need(c), threads));
  Clips clips(c);
  Recorder recorder;
  for (int step = 0; step < 4; ++step) {
    recorder.clear();
    trainer.step([&] { return clips(); }, &recorder);
  }
  std::int64_t samples = 0;
  for (std::int64_t h = 0; h < 2; ++h) {
    const sparsity::Head& head = trainer.sparsity()->head(0, h);
    if (head.sparse != 0) samples += static_cast<std::int64_t>(head.samples);
  }
  EXPECT_GT(samples, 0);
  std::vector<std::string> selections;
  std::int64_t updated = 0;
  for (const Record& r : recorder.records()) {
    if (const auto* s = std::get_if<work::Selection>(&r.work.what)) {
      selections.push_back(fmt::format("{}: {} rows, {} keys", display_name(r.work), s->rows, s->keys));
      EXPECT_GT(flops(r.work), 0);
    }
    if (r.work.phase == Phase::kOptimizer) updated += std::get<work::Sweep>(r.work.what).elements;
  }
  EXPECT_EQ(selections, (std::vector<std::string>{"profile and predictor: 64 rows, 64 keys",
                                                  fmt::format("choose keys: {} rows, 64 keys", 2 * 8 * samples)}));
  EXPECT_EQ(updated, 2 * std::ssize(trainer.optimizer().first_moment())) << "the norm and the update";
}

TEST(StepNeed, AGhostWritesDownTheWorkOfARealStep) {
  for (const std::string& family : testing::kFamilies) {
    for (const char* recompute : {"train.recompute=false", "train.recompute=true"}) {
      SCOPED_TRACE(family + " " + recompute);
      const RunConfig c = small_run(family, {recompute});
      Recorder ghost;
      step_need(c, 0, 1, &ghost);
      std::vector<std::string> real_lines, ghost_lines;
      for (const Record& r : recorded(c)) real_lines.push_back(describe(r.work));
      for (const Record& r : ghost.records()) ghost_lines.push_back(describe(r.work));
      EXPECT_EQ(ghost_lines, real_lines);
      EXPECT_GT(real_lines.size(), 20u);
    }
  }
}

// Lists of all layers are there at once; a bound, and no more than a few bytes above what fixed budgets take.
TEST(StepNeed, ListsTakeAtMostWhatIsPredicted) {
  for (const char* how : {"mode=random", "mode=static", "mode=window", "mode=own", "mode=dynamic", "mass=0.5",
                          "layer_keys=[0.3, 0.6, 1]"}) {
    SCOPED_TRACE(how);
    std::vector<std::string> keys = {
        "model.layers=3",    "video.frames=5",           "video.height=16",          "video.width=16",
        "train.batch=2",     "sparsity.mode=dynamic",    "sparsity.group=[2, 2, 2]", "sparsity.break_even=1",
        "sparsity.keep=[1]", "sparsity.profile_every=1", "sparsity.dense_layers=[1]"};
    if (std::string(how) != "mass=0.5") keys.push_back("sparsity.keys=0.4");
    keys.push_back(fmt::format("sparsity.{}", how));
    const RunConfig c = small_run("wan", keys);
    const StepNeed need = step_need(c);
    Threads threads(1);
    Trainer trainer(c, threads, sparsity_options(c, need, threads));
    double bytes = 0, entries = 0;
    const bool shared = c.sparsity.mode == "own" || c.sparsity.mode == "window";
    trainer.sparsity()->on_lists = [&](int layer, const lists::KeyLists& lists) {
      if (lists.keys.empty() || (shared && layer > 0)) return;
      bytes += 4.0 * static_cast<double>(lists.keys.size()) + 8.0 * static_cast<double>(lists.offsets.size());
      entries += static_cast<double>(lists.keys.size());
    };
    Clips clips(c);
    for (int step = 0; step < 4; ++step) {
      bytes = entries = 0;
      trainer.step([&] { return clips(); });
    }
    double averages = 0;
    if (c.sparsity.mode == "static") {
      averages = 4.0 * 3 * static_cast<double>(c.model.heads * token_order(c).groups() * token_order(c).tokens());
    }
    EXPECT_LE(bytes, need.lists - averages + 64);
    if (c.sparsity.mode != "dynamic" || !c.sparsity.layer_keys.empty()) {
      EXPECT_GT(entries, 0);
      EXPECT_GE(bytes, 0.95 * (need.lists - averages));
    }
    EXPECT_THROW(check_memory(c, need, need.bytes() - 1), Error);
    EXPECT_LE(c.sparsity.mode == "dynamic" && c.sparsity.layer_keys.empty() ? need.lists : 0,
              1.2 * kListsShare * need.dense_bytes());
  }
}

TEST(CheckMemory, EnoughIsEnough) {
  const RunConfig c = small_run("wan");
  const StepNeed need = step_need(c);
  EXPECT_NO_THROW(check_memory(c, need, need.bytes()));
  EXPECT_NO_THROW(check_memory(c, need, 0)) << "0 is not known";
  EXPECT_THROW(check_memory(c, need, need.bytes() - 1), Error);
}

class AvailableMemory : public testing::Files {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write_file_atomically(path(name), text);
  }
  double available() const { return available_memory(path("")); }
};

TEST_F(AvailableMemory, IsWhatTheSystemSays) {
  EXPECT_EQ(available(), 0);
  write("proc/meminfo", "MemTotal:  900 kB\nMemFree: 10 kB\nMemAvailable:     500 kB\n");
  EXPECT_EQ(available(), 500 * 1024);
  EXPECT_GT(available_memory(), 1e6);  // of this machine
}

TEST_F(AvailableMemory, IsAtMostTheRestOfTheContainersLimit) {
  write("proc/meminfo", "MemAvailable: 500 kB\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available(), 500 * 1024);
  write("sys/fs/cgroup/memory.max", "10000\n");
  EXPECT_EQ(available(), 9000);
  // Files that were read stay in memory until somebody needs it.
  write("sys/fs/cgroup/memory.current", "9990\n");
  write("sys/fs/cgroup/memory.stat", "anon 1000\nfile 8990\nactive_file 4000\ninactive_file 3000\n");
  EXPECT_EQ(available(), 7010);
  std::filesystem::remove(path("sys/fs/cgroup/memory.stat"));
  write("sys/fs/cgroup/memory.current", "10000\n");
  EXPECT_EQ(available(), 1) << "nothing is left, which is not the same as not known";
}

TEST_F(AvailableMemory, KnowsTheFirstGenerationOfContainers) {
  write("proc/meminfo", "MemAvailable: 500 kB\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n");
  EXPECT_EQ(available(), 500 * 1024);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "10000\n");
  write("sys/fs/cgroup/memory/memory.stat", "active_file 1\ntotal_active_file 300\ntotal_inactive_file 50\n");
  EXPECT_EQ(available(), 1350);
}

TEST(CheckMemory, SaysWhatWouldHelpAndHowMuch) {
  const auto gigabytes = [](double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); };
  const std::vector<std::string> large = {"model.layers=24", "model.heads=16", "model.head_dim=64", "video.frames=16",
                                          "video.height=64", "video.width=64", "train.batch=4"};
  const auto changed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), large.begin(), large.end());
    return small_run("wan", more);
  };
  const RunConfig c = changed({});
  const StepNeed need = step_need(c);
  const double recompute = step_need(changed({"train.recompute=true"})).bytes();
  const double batch = step_need(changed({"train.batch=1", "train.accumulate=4"})).bytes();
  const double both = step_need(changed({"train.batch=1", "train.accumulate=4", "train.recompute=true"})).bytes();
  const double no_average = step_need(changed({"train.ema=0"})).bytes();
  ASSERT_LT(both, recompute);

  const double available = recompute;
  ASSERT_GT(batch, available);
  EXPECT_EQ(message_of([&] { check_memory(c, need, available); }),
            fmt::format("this run needs {}, {} are available | "
                        "train.recompute = true brings it to {}\n"
                        "train.batch = 1 with train.accumulate in its place brings it to {}, still too much\n"
                        "both brings it to {}\n"
                        "train.ema = 0 brings it to {}, still too much\n"
                        "fewer frames, smaller frames (video.*) or a smaller model",
                        gigabytes(need.bytes()), gigabytes(available), gigabytes(recompute), gigabytes(batch),
                        gigabytes(both), gigabytes(no_average)));

  // What is done already is not offered.
  const RunConfig least = changed({"train.batch=1", "train.recompute=true", "train.ema=0"});
  const std::string message = message_of([&] { check_memory(least, step_need(least), 1e6); });
  EXPECT_TRUE(message.ends_with("are available | fewer frames, smaller frames (video.*) or a smaller model"))
      << message;
  const RunConfig again = changed({"train.recompute=true", "train.ema=0"});
  const std::string shorter = message_of([&] { check_memory(again, step_need(again), 1e6); });
  EXPECT_EQ(shorter.find("both"), std::string::npos) << shorter;
}

}  // namespace
}  // namespace reel::train
