#include "reel/trace/chrome.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace reel::trace {
namespace {

nlohmann::json written(const std::function<void(ChromeWriter&)>& fill) {
  const std::string path = testing::TempDir() + "reel_chrome_test.json";
  write_file_atomically(path, [&](FileWriter& file) {
    ChromeWriter writer(file);
    fill(writer);
    writer.finish();
  });
  const std::string text = read_file(path);
  std::remove(path.c_str());
  return nlohmann::json::parse(text);
}

TEST(Chrome, AnEmptyTraceIsJson) {
  EXPECT_EQ(written([](ChromeWriter&) {})["traceEvents"].size(), 0u);
}

TEST(Chrome, SlicesKeepPicosecondsAndStrangeNames) {
  const auto json = written([](ChromeWriter& w) {
    w.name_process(3, "rank 3");
    w.slice({3, 1, 1234567890123, 1, "say \"a\\b\"\n", "compute", "\"layer\":7"});
  });
  const auto& slice = json["traceEvents"][2];
  EXPECT_EQ(slice["name"], "say \"a\\b\"\n");
  EXPECT_EQ(slice["ph"], "X");
  EXPECT_DOUBLE_EQ(slice["ts"].get<double>(), 1234567.890123);
  EXPECT_DOUBLE_EQ(slice["dur"].get<double>(), 0.000001);
  EXPECT_EQ(slice["args"]["layer"], 7);
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "rank 3");
}

TEST(Chrome, ArrowsHaveTwoEndsWithOneNumber) {
  const auto json = written([](ChromeWriter& w) { w.arrow(9, 0, 2, 5000000, 1, 3, 6000000); });
  ASSERT_EQ(json["traceEvents"].size(), 2u);
  EXPECT_EQ(json["traceEvents"][0]["id"], json["traceEvents"][1]["id"]);
  EXPECT_EQ(json["traceEvents"][0]["ph"], "s");
  EXPECT_EQ(json["traceEvents"][1]["ph"], "f");
  EXPECT_EQ(json["traceEvents"][1]["pid"], 1);
}

}  // namespace
}  // namespace reel::trace
