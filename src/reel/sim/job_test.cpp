#include "reel/sim/job.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reel/base/testing.h"

namespace reel::sim {
namespace {

std::string error(const std::string& text) {
  return message_of([&] { read_job(Toml::parse(text, "job.toml")); });
}
const std::string kModel = "[model]\nhidden = 1024\nlayers = 24\n";

TEST(Job, EverythingButTheSizeHasADefault) {
  const Job job = read_job(Toml::parse(kModel, "job.toml"));
  EXPECT_EQ(job.devices(), 1);
  EXPECT_EQ(job.model.heads, 8);
  EXPECT_EQ(job.model.kv_heads, 8);
  EXPECT_EQ(job.model.ffn, 4096);
  EXPECT_EQ(job.global_batch, 1);
  EXPECT_NE(error("[model]\nlayers = 2\n").find("job.toml: model.hidden is missing"), std::string::npos);
  EXPECT_NE(error("[model]\nhidden = 256\n").find("model.layers is missing"), std::string::npos);
  EXPECT_NE(error(kModel + "kind = \"dit\"\n").find("model.frames is missing"), std::string::npos);
}

TEST(Job, DataIsWhatIsLeftOfTheDevices) {
  const Job job = read_job(Toml::parse(kModel + "[parallel]\ntensor = 4\npipeline = 2\ndevices = 64\n", "job.toml"));
  EXPECT_EQ(job.parallel.data, 8);
  EXPECT_EQ(job.global_batch, 8 * 16);
}

TEST(Job, MistakesNameFileLineAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[parallel]\ntensor = 4\ndata = 3\ndevices = 16\n",
       "job.toml:7: tensor 4 x pipeline 1 x context 1 x data 3 is 12, not 16 devices"},
      {"[parallel]\ntensor = 3\ndevices = 16\n", "job.toml:6: 16 devices cannot be cut into tensor 3"},
      {"[parallel]\npipeline = 5\n",
       "job.toml:5: model.layers = 24 is not a multiple of parallel.pipeline 5 x parallel.interleave 1"},
      {"[parallel]\npipeline = 4\ninterleave = 4\n",
       "job.toml:6: model.layers = 24 is not a multiple of parallel.pipeline 4 x parallel.interleave 4"},
      {"[parallel]\ntenser = 2\n", "job.toml:5: unknown key 'parallel.tenser' | did you mean 'parallel.tensor'?"},
      {"ffn = -1\n", "job.toml:4: model.ffn"},
      {"[parallel]\ntensor = 3\n", "job.toml:5: parallel.tensor = 3 does not divide model.heads, 8"},
      {"[batch]\nglobal = 7\nmicro = 2\n", "job.toml:5: batch.global = 7 is not a multiple of batch.micro 2"},
      {"[parallel]\npipeline = 4\ninterleave = 2\n[batch]\nglobal = 6\n",
       "job.toml:6: 6 micro-batches are not a multiple of parallel.pipeline = 4"},
      {"[parallel]\nzero = 2\n", "job.toml:5: parallel.zero = 2 | use 0, 1 or 3"},
      {"[parallel]\nexpert = 2\n", "job.toml:5: parallel.expert = 2, but model.experts is 0"},
      {"shared_ffn = 512\n", "job.toml:4: model.shared_ffn = 512, but model.experts is 0"},
      {"experts = 8\n[parallel]\nexpert = 3\ndata = 3\n",
       "job.toml:6: parallel.expert = 3 does not divide model.experts, 8"},
      {"experts = 8\n[parallel]\ntensor = 4\nexpert_tensor = 2\n", "job.toml:7: parallel.expert_tensor = 2 | use 1"},
      {"experts = 8\n[parallel]\ntensor = 4\nexpert_tensor = 1\n",
       "job.toml:7: parallel.expert_tensor = 1 without sequence"},
      {"kv_heads = 3\n", "job.toml:4: model.kv_heads = 3 does not divide model.heads, 8"},
      {"[parallel]\ntensor = 16\n", "job.toml:5: parallel.tensor = 16 does not divide model.heads, 8"},
      {"[memory]\nrecompute = \"fully\"\n", "job.toml:5: memory.recompute"},
      {"[slow]\nranks = [3]\nrank_factors = [2.0]\n", "job.toml:5: slow.ranks: there is no rank 3"},
      {"[parallel]\nplan = \"ulysses=2\"\n", "job.toml:5: parallel.plan is for kind = \"dit\""},
      {"[parallel]\ncontext = 3\n", "job.toml:5: model.sequence = 2048 is not a multiple of 2 x parallel.context = 6"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(error(kModel + text).find(expected), std::string::npos) << error(kModel + text);
}

TEST(Job, VideoPlansAreRead) {
  const std::string dit = kModel + "kind = \"dit\"\nframes = 8\nheight = 16\nwidth = 16\n";
  const Job job = read_job(Toml::parse(dit + "[parallel]\nplan = \"ulysses=2,ring=4\"\n", "job.toml"));
  EXPECT_EQ(job.parallel.plan, (layout::Degrees{.ulysses = 2, .ring = 4}));
  EXPECT_EQ(job.devices(), 8);
  EXPECT_NE(error(dit + "[parallel]\nplan = \"dsp=4\"\n").find("needs separate spatial and temporal attention"),
            std::string::npos);
  EXPECT_NE(error(dit + "[parallel]\nplan = \"ulises=4\"\n").find("cannot read the plan \"ulises=4\" at"),
            std::string::npos);
  for (const auto& [plan, what] :
       {std::pair{"ulysses=2,gather=2", "gather"}, {"ulysses-both=2", "ulysses-both"}, {"auto", "auto"}}) {
    EXPECT_NE(error(dit + "[parallel]\nplan = \"" + plan + "\"\n").find(fmt::format("does not know {} yet", what)),
              std::string::npos);
  }
  EXPECT_NE(error(dit + "[parallel]\nplan = \"ring=4,ulysses=2\"\n").find("use \"ulysses=2,ring=4\""),
            std::string::npos);
  EXPECT_NE(error(dit + "[parallel]\nplan = \"ulysses=16\"\n").find("does not divide model.heads, 8"),
            std::string::npos);
  for (const char* plan :
       {"ulysses=2,", ",ring=2", "ulysses=2,ulysses=4", "ulysses=2;ring=2", "ulysses", "ring=0", "ring=-2"})
    EXPECT_NE(error(dit + "[parallel]\nplan = \"" + plan + "\"\n").find("job.toml:9: parallel.plan"), std::string::npos)
        << plan << error(dit + "[parallel]\nplan = \"" + plan + "\"\n");
  EXPECT_NE(error(dit + "sparsity = [0.5, 0.5]\n").find("2 numbers for 24 layers"), std::string::npos);
  EXPECT_NE(error(dit + "sparsity = [1.5]\n").find("a sparsity of 1.5"), std::string::npos);
}

TEST(Job, HeadsMayBeWiderThanTheirShareOfTheModel) {
  const Job job = read_job(Toml::parse(kModel + "heads = 24\nhead_dim = 128\n", "job.toml"));
  EXPECT_EQ(job.model.attended(), 3072);
  EXPECT_NE(error(kModel + "heads = 24\n").find("model.heads = 24 does not divide model.hidden"), std::string::npos);
}

// Experts that are whole go to neighbours in tensor x data; of four ranks each has a quarter of them.
TEST(Job, WholeExpertsMayBeSpreadOverTensorRanks) {
  const std::string moe = kModel + "experts = 8\n[parallel]\ntensor = 2\ndata = 2\nexpert = 4\n";
  EXPECT_NE(error(moe).find("parallel.expert = 4 does not divide data x context, 2"), std::string::npos);
  EXPECT_EQ(read_job(Toml::parse(moe + "expert_tensor = 1\nsequence_parallel = true\n", "job.toml")).expert_ranks(), 4);
}

TEST(Job, HugeSizesAreRefusedNotOverflown) {
  EXPECT_NE(error("[model]\nhidden = 99999999999\nlayers = 2\n").find("model.hidden"), std::string::npos);
  EXPECT_NE(error(kModel + "kind = \"dit\"\nframes = 10000000\nheight = 10000000\nwidth = 10000000\n").find("tokens"),
            std::string::npos);
  EXPECT_NE(error(kModel + "[parallel]\ntensor = 16777216\npipeline = 65536\ncontext = 16777216\n").find("devices"),
            std::string::npos);
}

TEST(Job, TheJobsThatComeWithReelCanBeRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REEL_SOURCE_DIR "/jobs")) {
    EXPECT_GT(load_job(entry.path().string()).devices(), 0) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 6);
  EXPECT_EQ(load_job(REEL_SOURCE_DIR "/jobs/echo-gpt-175b-h800.toml").devices(), 96);
  EXPECT_EQ(load_job(REEL_SOURCE_DIR "/jobs/dsv-2.7b-520k.toml").devices(), 128);
  EXPECT_EQ(load_job(REEL_SOURCE_DIR "/jobs/open-sora-dsp-h800.toml").devices(), 8);
}

}  // namespace
}  // namespace reel::sim
