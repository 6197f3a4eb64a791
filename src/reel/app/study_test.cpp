#include "reel/app/study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "reel/app/testing.h"
#include "reel/files/file.h"
#include "reel/lists/ordered_lists.h"
#include "reel/study/qk_testing.h"

namespace reel::app {
namespace {

using study::testing::TempFile;
using study::testing::Tensors;
using testing::reel;
using testing::Result;

class StudyVerb : public ::testing::Test {
 protected:
  StudyVerb()
      : qk_("study_qk.safetensors"),
        lists_("study_lists.safetensors"),
        out_("study_out.safetensors"),
        json_("study.json"),
        page_("study.html") {
    setenv("REEL_MACHINE", (::testing::TempDir() + "no_machine/machine.toml").c_str(), 1);
    Tensors(2, 4 * 6 * 8, 16).write(qk_.path());
  }
  ~StudyVerb() override { unsetenv("REEL_MACHINE"); }
  TempFile qk_, lists_, out_, json_, page_;
};

TEST_F(StudyVerb, WritesATableNumbersAndAPage) {
  const auto [code, text, err] =
      reel({"study", qk_.path(), "--grid", "4x6x8", "--json", json_.path(), "--report", page_.path()});
  ASSERT_EQ(code, 0) << err;
  EXPECT_NE(text.find("2 heads of 16, 192 tokens in a grid of 4 x 6 x 8"), text.npos) << text;
  EXPECT_NE(text.find("there is no Machine file"), text.npos) << text;
  const auto json = nlohmann::json::parse(read_file(json_.path()));
  EXPECT_EQ(json["heads"], 2);
  EXPECT_EQ(json["queries_looked_at"], 192) << "all of so few";
  EXPECT_TRUE(json["break_even"].is_null());
  ASSERT_EQ(json["of_heads"].size(), 2u);
  EXPECT_GT(json["of_heads"][1]["query_keys"], 0);
  EXPECT_LT(json["of_heads"][1]["query_keys"], 1);
  EXPECT_EQ(json["of_heads"][0]["predictors"][0]["name"], "true");
  EXPECT_EQ(json["of_heads"][0]["predictors"][0]["recall"], 1);
  EXPECT_NE(read_file(page_.path()).find("<h2>Does a predictor find the keys</h2>"), std::string::npos);
}

TEST_F(StudyVerb, ListsAreExportedInEveryForm) {
  const Result made = reel({"study", "lists", qk_.path(), "--grid", "4x6x8", "--keys", "0.5", "--predictor", "true",
                            "--out", lists_.path()});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("of the true attention"), std::string::npos) << made.out;
  EXPECT_EQ(lists::load_key_lists(lists_.path()).heads, 2);
  for (const char* to : {"flex", "vsa", "mask"}) {
    for (const bool cover : {false, true}) {
      std::vector<std::string> words = {"export", lists_.path(), "--to", to, "--out", out_.path()};
      if (cover) words.push_back("--cover");
      const auto [code, text, err] = reel(words);
      ASSERT_EQ(code, 0) << to << ": " << err;
      EXPECT_NE(text.find(" on the way"), text.npos) << text;
      EXPECT_NE(text.find("'order'"), text.npos) << text;
    }
  }
  EXPECT_EQ(reel({"export", lists_.path(), "--to", "dsv", "--out", out_.path()}).code, 2) << "fewer than 256 tokens";
}

TEST_F(StudyVerb, ARunIsStudiedByItsPredictors) {
  const TempFile file("study_run.toml");
  write_file_atomically(file.path(), R"([model]
layers = 1
heads = 2
head_dim = 8
patch = [1, 4, 4]
[video]
frames = 4
height = 16
width = 16
[data]
validation = 1
[train]
steps = 2
batch = 1
threads = 1
samples = 0
validate_every = 0
)");
  const std::string folder = ::testing::TempDir() + "study_run";
  std::filesystem::remove_all(folder);
  ASSERT_EQ(reel({"train", file.path(), "--out", folder}).code, 0);
  const auto [code, text, err] = reel({"study", folder, "--json", json_.path()});
  ASSERT_EQ(code, 0) << err;
  EXPECT_NE(text.find("step 2, 1 layers of 2 heads of 8, 64 tokens"), text.npos) << text;
  const auto json = nlohmann::json::parse(read_file(json_.path()));
  ASSERT_EQ(json["predictors"].size(), 3u) << "rank 8 of both, and that of the spectrum";
  EXPECT_EQ(json["predictors"][0]["of_heads"].size(), 2u);
  EXPECT_GT(json["predictors"][0]["mean"]["recall"], 0.9) << "all 8 numbers";
  EXPECT_EQ(reel({"study", folder, "--grid", "4x4x4"}).code, 2);
  std::filesystem::remove_all(folder + "/checkpoints");
  EXPECT_EQ(reel({"study", folder}).code, 2);
  std::filesystem::remove_all(folder);
}

TEST_F(StudyVerb, MistakesExitWithTwo) {
  EXPECT_EQ(reel({"study"}).code, 2);
  EXPECT_EQ(reel({"study", "/no/such/file"}).code, 2);
  EXPECT_EQ(reel({"study", ::testing::TempDir()}).code, 2) << "a folder that is no run";
  EXPECT_EQ(reel({"study", qk_.path(), "--grid", "4x6x9"}).code, 2);
  EXPECT_EQ(reel({"study", qk_.path(), "--grid", "4x6"}).code, 2);
  EXPECT_EQ(reel({"study", qk_.path(), "--grid", "4x6x-8"}).code, 2);
  EXPECT_EQ(reel({"study", qk_.path(), "--mass", "1"}).code, 2);
  EXPECT_EQ(reel({"study", qk_.path(), "--mass", "nan"}).code, 2);
  EXPECT_EQ(reel({"study", "lists", qk_.path()}).code, 2);
  EXPECT_EQ(reel({"study", "lists", qk_.path(), "--keys", "2", "--out", lists_.path()}).code, 2);
  EXPECT_EQ(reel({"study", "lists", qk_.path(), "--predictor", "hidden", "--out", lists_.path()}).code, 2);
  EXPECT_EQ(reel({"export", qk_.path(), "--to", "flex", "--out", out_.path()}).code, 2) << "not key lists";
  ASSERT_EQ(reel({"study", "lists", qk_.path(), "--out", lists_.path()}).code, 0);
  EXPECT_EQ(reel({"export", lists_.path(), "--to", "cuda", "--out", out_.path()}).code, 2);
  EXPECT_EQ(reel({"export", lists_.path(), "--to", "mask", "--block", "32x32", "--out", out_.path()}).code, 2);
  EXPECT_EQ(reel({"export", lists_.path(), "--to", "vsa", "--block", "64x64", "--out", out_.path()}).code, 2);
  Tensors nan(1, 64, 8);
  nan["q"].values[7] = NAN;
  nan.write(qk_.path());
  EXPECT_EQ(reel({"study", qk_.path()}).code, 2);
}

}  // namespace
}  // namespace reel::app
