#include "app/app.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "attention/key_lists.h"
#include "base/file.h"

namespace reel::app {
namespace {

int reel(std::initializer_list<const char*> words) {
  std::vector<const char*> argv{"reel"};
  argv.insert(argv.end(), words);
  return run(static_cast<int>(argv.size()), argv.data());
}

TEST(App, HelpAndVersionSucceed) {
  EXPECT_EQ(reel({"--version"}), 0);
  EXPECT_EQ(reel({"help"}), 0);
  EXPECT_EQ(reel({"help", "bench", "attention"}), 0);
  EXPECT_EQ(reel({"bench", "--help"}), 0);
}

TEST(App, MistakesOfTheUserExitWithTwo) {
  EXPECT_EQ(reel({}), 2);
  EXPECT_EQ(reel({"dotcor"}), 2);
  EXPECT_EQ(reel({"help", "nothing"}), 2);
  EXPECT_EQ(reel({"bench"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--haeds", "4"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--heads", "four"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--head-dim", "12"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--sparsity", "1.5"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--tokens", "-5"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--tokens", "64", "--group", "0"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--tokens", "64", "--block", "100"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--threads", "0"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--lists", "/no/such/file"}), 2);
  EXPECT_EQ(reel({"bench", "gemm", "--m", "4"}), 2);
  EXPECT_EQ(reel({"bench", "select", "--samples", "0"}), 2);
  EXPECT_EQ(reel({"bench", "select", "--head-dim", "7"}), 2);
}

// Zero and NaN are not taken for "not given", which would measure something else without a word.
TEST(App, NumbersOutOfRangeAreRefusedBeforeAnythingIsMeasured) {
  for (const char* option : {"--heads", "--tokens", "--head-dim", "--group"}) {
    for (const char* verb : {"attention", "select", "sparse"}) {
      EXPECT_EQ(reel({"bench", verb, option, "0"}), 2) << verb << " " << option;
    }
  }
  EXPECT_EQ(reel({"bench", "attention", "--tokens", "64", "--sparsity", "-1"}), 2);
  EXPECT_EQ(reel({"bench", "attention", "--tokens", "64", "--sparsity", "nan"}), 2);
  EXPECT_EQ(reel({"bench", "gemm", "--m", "0"}), 2);
  EXPECT_EQ(reel({"bench", "gemm", "--rounds", "0"}), 2);
  EXPECT_EQ(reel({"bench", "train", "--steps", "0"}), 2);
  EXPECT_EQ(reel({"bench", "train", "--tokens", "0"}), 2);
}

TEST(App, BenchWritesMachineAndRows) {
  const std::string lists = testing::TempDir() + "reel_app_lists.safetensors";
  const std::string out = testing::TempDir() + "reel_app_test.json";
  attention::save(attention::random_lists(1, 2, 300, attention::uniform_groups(200, 64), 0.3, 1, 1), lists);
  ASSERT_EQ(reel({"bench", "attention", "--lists", lists.c_str(), "--head-dim", "72", "--threads", "2", "--json",
                  out.c_str()}),
            0);
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
  testing::internal::CaptureStdout();
  EXPECT_EQ(reel({"bench", "attention", "--lists", lists.c_str(), "--json", "/no/such/folder/x.json"}), 2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  std::remove(lists.c_str());
  std::remove(out.c_str());
}

}  // namespace
}  // namespace reel::app
