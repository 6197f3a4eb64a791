#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "reel/app/testing.h"
#include "reel/base/error.h"
#include "reel/files/safetensors.h"
#include "reel/lists/ordered_lists.h"

namespace reel::app {
namespace {

using testing::reel;
using testing::Result;

const std::string kFixture = REEL_SOURCE_DIR "/tests/oracle/fixtures/stdit3";

// reel denoise with the fixture's inputs but `missing`, and with one that no model takes.
Result denoise_without(const std::vector<std::string>& missing) {
  const std::string in = ::testing::TempDir() + "reel_denoise_in.safetensors",
                    out = ::testing::TempDir() + "reel_denoise_out.safetensors";
  const SafetensorsFile given = SafetensorsFile::open(kFixture + "/in.safetensors");
  SafetensorsWriter writer;
  std::vector<Buffer<float>> values;
  for (const std::string& name : given.names()) {
    if (std::find(missing.begin(), missing.end(), name) != missing.end()) continue;
    values.push_back(given.read_f32(name));
    writer.add(name, given.info(name).shape, values.back());
  }
  const std::vector<float> one(1);
  writer.add("guidance", {1}, one);
  writer.write(in);
  Result result = reel({"denoise", kFixture, "--inputs", in, "--outputs", out});
  std::filesystem::remove(in);
  std::filesystem::remove(out);
  return result;
}

TEST(Denoise, AllMissingInputsAreNamedInOneError) {
  const Result result = denoise_without({"timestep", "fps"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("there is no timestep, no fps\n"), std::string::npos) << result.err;
}

TEST(Denoise, InputsThatNoModelTakesAreSaid) {
  const Result result = denoise_without({});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("guidance is not looked at\n"), std::string::npos) << result.err;
}

TEST(Denoise, ListsThatDoNotKnowTheirOrderAreTakenForRasterOrderWithAWord) {
  const std::string wan = REEL_SOURCE_DIR "/tests/oracle/fixtures/wan-lists";
  const std::string lists = ::testing::TempDir() + "reel_denoise_lists.safetensors",
                    out = ::testing::TempDir() + "reel_denoise_out.safetensors";
  lists::OrderedLists given = lists::load_key_lists(wan + "/lists.safetensors");
  const auto sample = [&](const std::string& path, bool word) {
    const Result result =
        reel({"denoise", wan, "--inputs", wan + "/in.safetensors", "--outputs", out, "--lists", path});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.find("there is no tensor 'order'") != std::string::npos, word) << result.err;
    const Buffer<float> values = SafetensorsFile::open(out).read_f32("sample");
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> assumed = sample(wan + "/lists.safetensors", true);
  given.order.resize(static_cast<std::size_t>(given.keys_tokens));
  std::iota(given.order.begin(), given.order.end(), 0);
  lists::save(given, lists);
  EXPECT_EQ(sample(lists, false), assumed);
  std::reverse(given.order.begin(), given.order.end());
  lists::save(given, lists);
  EXPECT_NE(sample(lists, false), assumed) << "other keys for the same queries";
  const Result refused =
      reel({"denoise", kFixture, "--inputs", kFixture + "/in.safetensors", "--outputs", out, "--lists", lists});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("an order of their own"), std::string::npos) << refused.err;
  std::filesystem::remove(lists);
  std::filesystem::remove(out);
}

}  // namespace
}  // namespace reel::app
