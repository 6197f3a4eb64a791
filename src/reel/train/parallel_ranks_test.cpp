// Training on many ranks against one rank: the same losses, weights, checkpoints and samples.
#include <gtest/gtest.h>
#include <unistd.h>

#include "reel/parallel/testing.h"
#include "reel/train/checkpoint.h"
#include "reel/train/run.h"
#include "reel/train/sampling.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

using parallel::testing::world;

// A folder that all ranks see; rank 0 makes and removes it. The parent of all ranks is mpirun.
class Shared {
 public:
  explicit Shared(const std::string& name)
      : path_(::testing::TempDir() + fmt::format("reel_ranks_{}_{}", ::getppid(), name)) {
    if (world().rank() == 0) {
      std::filesystem::remove_all(path_);
      std::filesystem::create_directories(path_);
    }
    world().barrier();
  }
  ~Shared() {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(path_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// One of the ranks of a run, or a run of one rank.
struct Rank {
  Rank(const RunConfig& c, parallel::Team* team)
      : threads(1), trainer(c, threads, {}, team), clips(c, trainer.first_clip(), trainer.own_clips()) {
    parallel::testing::poll_from(threads);
    testing::shake(trainer.model());
    if (trainer.optimizer().has_average()) trainer.optimizer().start_average();
  }
  StepReport step(Recorder* recorder = nullptr) {
    return trainer.step([&] { return clips(); }, recorder);
  }
  std::vector<float> values() { return testing::copy_of(trainer.model().parameters().trained_values()); }

  Threads threads;
  Trainer trainer;
  testing::Clips clips;
};

RunConfig config(const std::string& family, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {fmt::format("train.batch={}", world().size() + 1), "train.steps=20", "train.lr=0.003"});
  return testing::small_run(family, more);
}

std::vector<layout::Degrees> plans_for(const std::string& family) {
  std::vector<layout::Degrees> plans = {{}};
  for (int degree = 2; degree <= world().size(); ++degree) {
    if (world().size() % degree != 0) continue;
    plans.push_back(testing::full_attention(family) ? layout::Degrees{.ulysses = degree}
                                                    : layout::Degrees{.dsp = degree});
    if (testing::full_attention(family)) plans.push_back({.ring = degree});
  }
  return plans;
}

// Data order, noise, timesteps and dropped texts do not depend on how the work is cut; clipping is over all ranks.
TEST(TrainRanks, TwentyStepsHaveTheLossesOfOneRank) {
  for (const std::string& family : testing::kFamilies) {
    const RunConfig c = config(family, {"train.accumulate=2"});
    Rank one(c, nullptr);
    std::vector<StepReport> expected;
    for (int i = 0; i < 20; ++i) expected.push_back(one.step());
    const double validation = one.trainer.validate(*one.clips.source);
    for (const layout::Degrees& plan : plans_for(family)) {
      SCOPED_TRACE(fmt::format("{} {}", family, plan.text()));
      parallel::Team team(world(), plan);
      Rank many(c, &team);
      for (int i = 0; i < 20; ++i) {
        const StepReport report = many.step();
        const auto at = static_cast<std::size_t>(i);
        EXPECT_NEAR(report.loss, expected[at].loss, 1e-4 * expected[at].loss) << "step " << i;
        EXPECT_NEAR(report.gradient_norm, expected[at].gradient_norm, 1e-3 * expected[at].gradient_norm)
            << "step " << i;
      }
      EXPECT_NEAR(many.trainer.validate(*many.clips.source), validation, 1e-4 * validation);
      // The state is cut: no rank has more than its share, and a float a bucket.
      EXPECT_LE(many.trainer.optimizer().first_moment().size(),
                many.trainer.model().parameters().trained_floats() / static_cast<std::size_t>(world().size()) + 1);
    }
  }
}

// What the ranks do to share the gradients and the update, which a ghost of a pass does not.
bool shares_gradients(const Work& work) {
  if (work.phase == Phase::kOptimizer || work.phase == Phase::kOther) return true;
  if (const auto* sweep = std::get_if<work::Sweep>(&work.what)) return sweep->name == "sum of gradients";
  const auto* wait = std::get_if<work::Wait>(&work.what);
  const auto* exchange = wait != nullptr ? &wait->exchange : std::get_if<work::Exchange>(&work.what);
  return exchange != nullptr && exchange->kind == work::Exchange::Kind::kReduceScatter;
}

TEST(TrainRanks, AStepWritesDownItsWorkAndItsMessagesAndSoDoesAGhost) {
  for (const std::string& family : testing::kFamilies) {
    for (const layout::Degrees& plan : plans_for(family)) {
      SCOPED_TRACE(fmt::format("{} {}", family, plan.text()));
      RunConfig c = config(family);
      c.parallel.plan = plan;
      parallel::Team team(world(), plan);
      Rank rank(c, &team);
      Recorder real, ghost;
      world().shared().traffic.clear();
      rank.step(&real);
      const std::int64_t sent = world().shared().traffic.bytes_sent();
      step_need(c, world().rank(), world().size(), &ghost);
      std::vector<std::string> real_lines, ghost_lines;
      for (const Record& r : real.records()) {
        if (!shares_gradients(r.work)) real_lines.push_back(describe(r.work));
      }
      for (const Record& r : ghost.records()) ghost_lines.push_back(describe(r.work));
      EXPECT_EQ(real_lines, ghost_lines);
      const auto is_exchange = [](const Work& work) { return std::holds_alternative<work::Exchange>(work.what); };
      EXPECT_EQ(total_of(real.records(), is_exchange).bytes, static_cast<double>(sent));
      std::int64_t sums = 0;
      for (const Record& r : real.records()) {
        if (is_exchange(r.work)) {
          EXPECT_NE(std::get<work::Exchange>(r.work.what).members, nullptr);
        }
        const auto* sweep = std::get_if<work::Sweep>(&r.work.what);
        if (sweep != nullptr && sweep->name == "sum of gradients") sums += sweep->elements;
      }
      EXPECT_EQ(sums, std::ssize(rank.trainer.optimizer().first_moment()));
    }
  }
}

// A checkpoint does not know how many ranks wrote it.
TEST(TrainRanks, ARunGoesOnWithAnotherPlanOrOnOneRank) {
  for (const std::string& family : testing::kFamilies) {
    const Shared folder(family);
    const RunConfig c = config(family);
    const std::vector<layout::Degrees> plans = plans_for(family);
    parallel::Team first_team(world(), plans.back()), second_team(world(), plans.front());
    Rank first(c, &first_team);
    for (int i = 0; i < 3; ++i) first.step();
    save_checkpoint(folder / "run", first.trainer, {.step = 3, .data_position = first.clips.loader.position()}, 1);
    world().barrier();
    Rank second(c, &second_team), alone(c, nullptr);
    ASSERT_EQ(load_checkpoint(folder / "run", second.trainer)->step, 3);
    ASSERT_EQ(load_checkpoint(folder / "run", alone.trainer)->step, 3);
    EXPECT_EQ(second.values(), first.values());
    EXPECT_EQ(alone.values(), first.values());
    // The averages, too: they are cut as the rest of the state, and swapped in whole.
    std::vector<float> averages[2];
    first.trainer.with_average([&] { averages[0] = first.values(); });
    alone.trainer.with_average([&] { averages[1] = alone.values(); });
    EXPECT_EQ(averages[0], averages[1]);
    EXPECT_NE(averages[0], first.values());
    for (Rank* rank : {&second, &alone}) {
      for (int i = 0; i < 3; ++i) rank->clips();  // to where the run was
      EXPECT_EQ(rank->clips.loader.position(), first.clips.loader.position());
    }
    for (int i = 0; i < 3; ++i) {
      const double loss = first.step().loss;
      EXPECT_NEAR(second.step().loss, loss, 1e-4 * loss);
      EXPECT_NEAR(alone.step().loss, loss, 1e-4 * loss);
    }
  }
}

// The same number of ranks: the same bits, with a checkpoint between or not.
TEST(TrainRanks, AResumedRunHasTheSameBits) {
  const Shared folder("bits");
  const RunConfig c = config("wan");
  parallel::Team team(world(), plans_for("wan").back());
  Rank whole(c, &team), part(c, &team);
  for (int i = 0; i < 4; ++i) whole.step();
  for (int i = 0; i < 2; ++i) part.step();
  save_checkpoint(folder / "run", part.trainer, {.step = 2}, 1);
  world().barrier();
  Rank resumed(c, &team);
  load_checkpoint(folder / "run", resumed.trainer);
  for (int i = 0; i < 2; ++i) resumed.clips();
  for (int i = 0; i < 2; ++i) resumed.step();
  EXPECT_EQ(resumed.values(), whole.values());
}

// Decisions and lists are those of one rank. In the first step q and k have the same bits however the work is cut, and
// so have the lists (spread_ranks_test.cpp: always where q and k have). Later the weights differ in the last bits,
// since gradients are summed over the ranks, and a key at the edge of a list may be another one.
TEST(TrainRanks, SparseTrainingChoosesTheKeysOfOneRank) {
  for (const std::string predictor : {"qk", "hidden"}) {
    const RunConfig c = config("wan", {"sparsity.mode=dynamic", "sparsity.predictor=" + predictor,
                                       "sparsity.layer_keys=[0.4]", "sparsity.group=[1,2,2]", "video.frames=4",
                                       "video.height=16", "video.width=16", "train.recompute=true"});
    using Keys = std::vector<std::int32_t>;
    const auto lists_of = [&](parallel::Team* team, std::vector<double>& losses, Keys& first) {
      Rank rank(c, team);
      Keys keys;
      rank.trainer.sparsity()->on_lists = [&](int, const lists::KeyLists& lists) {
        keys.insert(keys.end(), lists.keys.begin(), lists.keys.end());
      };
      for (int i = 0; i < 6; ++i) {
        losses.push_back(rank.step().loss);
        if (i == 0) first = keys;
      }
      return keys;
    };
    std::vector<double> one_losses;
    Keys one_first;
    const Keys one = lists_of(nullptr, one_losses, one_first);
    EXPECT_FALSE(one_first.empty());
    for (const layout::Degrees& plan : plans_for("wan")) {
      SCOPED_TRACE(fmt::format("{} {}", predictor, plan.text()));
      parallel::Team team(world(), plan);
      std::vector<double> losses;
      Keys many_first;
      const Keys many = lists_of(&team, losses, many_first);
      EXPECT_EQ(many_first, one_first);
      EXPECT_EQ(many.size(), one.size());
      std::size_t same = 0;
      for (std::size_t i = 0; i < std::min(one.size(), many.size()); ++i) same += one[i] == many[i] ? 1 : 0;
      EXPECT_GE(static_cast<double>(same), 0.99 * static_cast<double>(one.size()));
      for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], one_losses[i], 1e-3 * one_losses[i]);
    }
  }
}

TEST(TrainRanks, SamplesAreThoseOfOneRank) {
  for (const std::string& family : testing::kFamilies) {
    const RunConfig c = config(family);
    Rank rank(c, nullptr);
    const std::size_t floats = clip_shape(c, 2).size();
    Buffer<float> texts(static_cast<std::size_t>(2 * c.text_tokens * c.text_width));
    Random(4).fill_normal(texts);
    const auto sample = [&](parallel::Team* team) {
      Buffer<float> clips = Buffer<float>::zeros(floats);
      tape::Pool pool;
      sample_clips(c, rank.trainer.model(), pool, rank.threads, texts, {.steps = 3, .guidance = 2, .team = team},
                   clips);
      return testing::copy_of(clips);
    };
    const std::vector<float> one = sample(nullptr);
    for (const layout::Degrees& plan : plans_for(family)) {
      SCOPED_TRACE(fmt::format("{} {}", family, plan.text()));
      parallel::Team team(world(), plan);
      parallel::testing::expect_parity(sample(&team), one);
    }
  }
}

// Ghosts know what a rank needs before it runs.
TEST(TrainRanks, MemoryOfARankIsKnownBefore) {
  for (const std::string& family : testing::kFamilies) {
    for (const layout::Degrees& plan : plans_for(family)) {
      SCOPED_TRACE(fmt::format("{} {}", family, plan.text()));
      const RunConfig c = config(family, {fmt::format("parallel.plan=\"{}\"", plan.text())});
      parallel::Team team(world(), plan);
      Rank rank(c, &team);
      rank.step();
      const StepNeed need = step_need(c, world().rank(), world().size());
      EXPECT_EQ(static_cast<double>(rank.trainer.pool().peak_bytes()), need.activations);
      EXPECT_EQ(need.optimizer,
                static_cast<double>(3 * sizeof(float) * rank.trainer.optimizer().first_moment().size()));
    }
  }
}

// Sparse runs rest in whole query groups: here two of them, so that ranks differ.
TEST(TrainRanks, MemoryOfARankOfASparseRunIsKnownBefore) {
  for (const layout::Degrees& plan : plans_for("wan")) {
    SCOPED_TRACE(plan.text());
    const RunConfig c =
        config("wan", {fmt::format("parallel.plan=\"{}\"", plan.text()), "sparsity.mode=window", "sparsity.start=100",
                       "sparsity.group=[2,8,8]", "video.frames=4", "video.height=16", "video.width=16"});
    parallel::Team team(world(), plan);
    Rank rank(c, &team);
    rank.step();
    const StepNeed need = step_need(c, world().rank(), world().size());
    EXPECT_EQ(static_cast<double>(rank.trainer.pool().peak_bytes()), need.activations);
  }
}

TEST(TrainRanks, AWholeRunWritesOneFolder) {
  const Shared folder("whole");
  const RunConfig c = config("stdit3", {"train.steps=4", "train.checkpoint_every=2"});
  RunConfig planned = c;
  planned.parallel.plan = plans_for("stdit3").back();
  EXPECT_TRUE(run(planned, {.folder = folder / "run", .world = &world()}));
  world().barrier();
  EXPECT_EQ(std::filesystem::path(latest_checkpoint(folder / "run")).filename(), "step-000004");
  const std::string metrics = read_file(folder / "run/metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 4 + 2);  // steps, and the loss of validation twice
  EXPECT_TRUE(std::filesystem::exists(folder / "run/report.html"));
}

}  // namespace
}  // namespace reel::train
