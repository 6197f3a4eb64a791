#include "reel/app/app.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "reel/app/testing.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"
#include "reel/kernels/cpu.h"
#include "reel/lists/ordered_lists.h"

namespace reel::app {
namespace {

using testing::call;
using testing::reel;
using testing::Result;

// What a bench with --json wrote; every row has a name and a time, and a rate wherever work was counted.
nlohmann::json bench_once(std::vector<std::string> words, const std::string& out) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--rounds", "1", "--json", out});
  EXPECT_EQ(call(words), 0) << words[1];
  auto result = nlohmann::json::parse(read_file(out));
  EXPECT_FALSE(result["machine"]["cpu"].get<std::string>().empty());
  EXPECT_GT(result["machine"]["peak_all"], 1e8);
  for (const auto& row : result["rows"]) {
    EXPECT_FALSE(row["case"].get<std::string>().empty());
    EXPECT_GT(row["seconds"], 0) << row;
    EXPECT_EQ(row.at("gflops").is_number(), row.contains("flops")) << row;
    EXPECT_EQ(row.at("share_of_peak").is_number(), row.contains("flops")) << row;
    EXPECT_EQ(row.contains("against"), row.contains("speedup")) << row;
  }
  return result;
}

TEST(App, HelpAndVersionSucceed) {
  EXPECT_EQ(call({"--version"}), 0);
  EXPECT_EQ(call({"help"}), 0);
  EXPECT_EQ(call({"help", "bench", "attention"}), 0);
  EXPECT_EQ(call({"bench", "--help"}), 0);
}

TEST(App, MistakesOfTheUserExitWithTwo) {
  EXPECT_EQ(call({}), 2);
  EXPECT_EQ(call({"dotcor"}), 2);
  EXPECT_EQ(call({"help", "nothing"}), 2);
  EXPECT_EQ(call({"bench"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--haeds", "4"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--heads", "four"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--head-dim", "12"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--sparsity", "1.5"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--tokens", "-5"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--tokens", "64", "--group", "0"}), 2);
  for (const char* block : {"-64", "0", "2", "100"}) {
    EXPECT_EQ(call({"bench", "attention", "--block", block}), 2) << block;
    EXPECT_EQ(call({"bench", "attention", "--tokens", "64", "--block", block}), 2) << block;
  }
  EXPECT_EQ(call({"bench", "attention", "--threads", "0"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--lists", "/no/such/file"}), 2);
  EXPECT_EQ(call({"bench", "gemm", "--m", "4"}), 2);
  EXPECT_EQ(call({"bench", "select", "--samples", "0"}), 2);
  EXPECT_EQ(call({"bench", "select", "--head-dim", "7"}), 2);
}

// Zero and NaN are not taken for "not given", which would measure something else without a word.
TEST(App, NumbersOutOfRangeAreRefusedBeforeAnythingIsMeasured) {
  for (const char* option : {"--heads", "--tokens", "--head-dim", "--group"}) {
    for (const char* verb : {"attention", "select", "sparse"}) {
      EXPECT_EQ(call({"bench", verb, option, "0"}), 2) << verb << " " << option;
    }
  }
  EXPECT_EQ(call({"bench", "attention", "--tokens", "64", "--sparsity", "-1"}), 2);
  EXPECT_EQ(call({"bench", "attention", "--tokens", "64", "--sparsity", "nan"}), 2);
  EXPECT_EQ(call({"bench", "gemm", "--m", "0"}), 2);
  EXPECT_EQ(call({"bench", "gemm", "--rounds", "0"}), 2);
  EXPECT_EQ(call({"bench", "train", "--steps", "0"}), 2);
  EXPECT_EQ(call({"bench", "train", "--tokens", "0"}), 2);
}

// As "$LISTS" is without LISTS: it would be taken for "not given", and something else measured.
TEST(App, EmptyWordsAreRefused) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"bench", "attention", "--lists", ""},
                                             {"bench", "gemm", "--json", ""},
                                             {"sample", "none", "--parallel", ""},
                                             {"inspect", ""}}) {
    const Result result = reel(words);
    EXPECT_EQ(result.code, 2) << words[0];
    EXPECT_NE(result.err.find("empty"), std::string::npos) << result.err;
  }
}

TEST(App, OptionsThatListsMakeUselessAreRefused) {
  const TempFolder folder;
  const std::string lists = folder / "lists.safetensors";
  lists::save(lists::OrderedLists(lists::dense_lists(1, 1, 64, 64)), lists);
  const std::pair<const char*, const char*> unused[] = {
      {"--heads", "1"}, {"--tokens", "64"}, {"--sparsity", "0.5"}, {"--group", "64"}, {"--block", "1"}};
  for (const auto& [option, value] : unused) {
    const Result result = reel({"bench", "attention", "--lists", lists, option, value});
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find(option + std::string(" has no effect together with --lists")), std::string::npos)
        << result.err;
  }
}

// Minutes of work would be lost.
TEST(App, AFolderIsNotTakenForAFileToWrite) {
  const TempFolder folder;
  for (const std::string& path : {std::string("."), folder.path(), folder.path() + "/"}) {
    const std::vector<std::vector<std::string>> commands = {{"bench", "gemm", "--json"},
                                                            {"bench", "quality", "--report"},
                                                            {"train", "none.toml", "--traffic"},
                                                            {"sample", "none", "--out"},
                                                            {"denoise", "none", "--inputs", "none", "--outputs"}};
    for (std::vector<std::string> words : commands) {
      words.push_back(path);
      const Result result = reel(words);
      EXPECT_EQ(result.code, 2) << words[0];
      EXPECT_EQ(result.out, "");
      EXPECT_NE(result.err.find(path + " is a folder; name a file in it"), std::string::npos) << result.err;
    }
  }
}

// Each tensor alone would be granted, and the process be killed when they are filled.
TEST(App, SizesBeyondTheMemoryAreRefused) {
  for (const Result& result : {reel({"bench", "attention", "--tokens", "16777216", "--heads", "4000"}),
                               reel({"bench", "gemm", "--m", "1048576", "--n", "1048576", "--k", "1048576"})}) {
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("are available"), std::string::npos) << result.err;
  }
}

TEST(App, FilesThatCannotBeWrittenAreRefusedBeforeTheWork) {
  EXPECT_EQ(call({"bench", "gemm", "--json", ""}), 2);
  EXPECT_EQ(call({"bench", "gemm", "--json", std::string(300, 'x')}), 2);
  EXPECT_EQ(call({"doctor", "--measure", "--out", "."}), 2);
  EXPECT_EQ(call({"doctor", "--out", "x.toml"}), 2);  // which nothing would write
  if (::geteuid() != 0) {                             // root may
    EXPECT_EQ(call({"bench", "gemm", "--json", "/usr/x.json"}), 2);
  }
}

TEST(App, DoctorMeasuresAndKeepsNothingUnasked) {
  const TempFolder folder;
  setenv("REEL_MACHINE", (folder / "machine.toml").c_str(), 1);
  const auto [code, text, err] = reel({"doctor", "--threads", "1"});
  EXPECT_EQ(code, 0) << err;
  for (const char* part : {"CPU ", "instruction sets ", "f32 multiply-add ", "memory ", "reel doctor --measure"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_FALSE(std::filesystem::exists(folder / "machine.toml"));
  unsetenv("REEL_MACHINE");
}

TEST(App, BenchesOfTinyShapesWriteTheirRows) {
  const TempFolder folder;
  const std::string out = folder / "bench.json";
  const auto gemm = bench_once({"gemm", "--m", "40", "--n", "24", "--k", "16", "--threads", "2"}, out);
  ASSERT_EQ(gemm["rows"].size(), 3u);
  for (const auto& row : gemm["rows"]) EXPECT_EQ(row["flops"], 2 * 40 * 24 * 16);
  EXPECT_FALSE(gemm["machine"].contains("peak_one")) << "nobody measured one of two threads alone";

  const auto select = bench_once({"select", "--heads", "2", "--tokens", "100", "--head-dim", "8", "--group", "32",
                                  "--rank", "4", "--samples", "2", "--threads", "1"},
                                 out);
  ASSERT_EQ(select["rows"].size(), 5u);
  EXPECT_EQ(select["machine"]["peak_one"], select["machine"]["peak_all"]);
  EXPECT_TRUE(select["rows"][0].contains("flops"));
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(select["rows"][i]["speedup"], 0);

  // A size of groups or blocks is one of lists: they are measured beside dense, said how sparse or not.
  const auto attention =
      bench_once({"attention", "--heads", "2", "--tokens", "640", "--head-dim", "8", "--block", "64"}, out);
  ASSERT_EQ(attention["rows"].size(), 5u);
  EXPECT_EQ(attention["rows"][0]["case"], "dense forward 2x640x8");
  EXPECT_EQ(attention["rows"][2]["case"], "sparse forward 2x640x8 10.0% of blocks of 64");
  for (std::size_t i = 2; i < 5; ++i) EXPECT_GT(attention["rows"][i]["speedup"], 0);
}

// In processes of their own: the instruction set is chosen once.
TEST(App, TheEnvironmentChoosesTheInstructionSet) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string out = ::testing::TempDir() + "reel_app_target.json", weakest = kernels::available_targets().back();
  const auto gemm_on = [&](const char* target) {
    setenv("REEL_CPU", target, 1);
    std::_Exit(call({"bench", "gemm", "--m", "40", "--n", "24", "--k", "16", "--rounds", "1", "--json", out}));
  };
  // The weakest is sse4, but for builds of one target and Arm.
  EXPECT_EXIT(gemm_on(weakest.c_str()), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(nlohmann::json::parse(read_file(out))["machine"]["target"], weakest);
  EXPECT_EXIT(gemm_on("nonsense"), ::testing::ExitedWithCode(2),
              "REEL_CPU=nonsense: instruction set 'nonsense' is not available\n.*available here: ");
  std::remove(out.c_str());
}

TEST(App, BenchWritesMachineAndRows) {
  const std::string lists = ::testing::TempDir() + "reel_app_lists.safetensors";
  const std::string out = ::testing::TempDir() + "reel_app_test.json";
  lists::save(lists::OrderedLists(lists::random_lists(1, 2, 300, lists::uniform_groups(200, 64), 0.3, 1, 1)), lists);
  ASSERT_EQ(call({"bench", "attention", "--lists", lists, "--head-dim", "72", "--threads", "2", "--json", out}), 0);
  const auto result = nlohmann::json::parse(read_file(out));
  EXPECT_EQ(result["machine"]["threads"], 2);
  EXPECT_GT(result["machine"]["peak_all"], 1e8);
  ASSERT_EQ(result["rows"].size(), 2u);
  for (const auto& row : result["rows"]) {
    EXPECT_GT(row["seconds"], 0);
    EXPECT_NEAR(row["gflops"].get<double>(), row["flops"].get<double>() / row["seconds"].get<double>() / 1e9, 1e-6);
    EXPECT_NEAR(row["share_of_peak"].get<double>(),
                row["gflops"].get<double>() * 1e9 / result["machine"]["peak_all"].get<double>(), 1e-9);
  }
  EXPECT_EQ(result["rows"][0]["case"].get<std::string>().substr(0, 15), "sparse forward ");
  EXPECT_EQ(result["rows"][1]["case"].get<std::string>().substr(0, 16), "sparse backward ");
  // A result that could not be written is an error before anything is measured.
  const Result refused = reel({"bench", "attention", "--lists", lists, "--json", "/no/such/folder/x.json"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  std::remove(lists.c_str());
  std::remove(out.c_str());
}

}  // namespace
}  // namespace reel::app
