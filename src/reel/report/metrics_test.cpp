#include "reel/report/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "reel/base/testing.h"
#include "reel/files/file.h"

namespace reel::report {
namespace {

class MetricsFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = testing::TempDir() + "reel_metrics_test.jsonl";
};

TEST_F(MetricsFileTest, WritesOneObjectALineAndEachAtOnce) {
  MetricsFile file = MetricsFile::open(path_, -1);
  file.write(0, {{"loss", 1.5}, {"tokens_per_second", 12000}});
  EXPECT_EQ(read_file(path_), "{\"step\":0,\"loss\":1.5,\"tokens_per_second\":12000}\n");
  file.write(1, {{"loss", NAN}, {"gradient_norm", INFINITY}});
  file.write(2, {});
  EXPECT_EQ(read_file(path_),
            "{\"step\":0,\"loss\":1.5,\"tokens_per_second\":12000}\n"
            "{\"step\":1,\"loss\":null,\"gradient_norm\":null}\n"
            "{\"step\":2}\n");
}

TEST_F(MetricsFileTest, NumbersAreReadToTheLastBit) {
  const double values[] = {1.0 / 3,
                           0.1f,
                           -0.0,
                           1e300,
                           123456789012345678.0,
                           std::numeric_limits<double>::denorm_min(),
                           std::numeric_limits<double>::max(),
                           -std::numeric_limits<double>::min()};
  MetricsFile file = MetricsFile::open(path_, -1);
  std::int64_t step = 0;
  for (const double value : values) file.write(step++, {{"x", value}});
  file.write(std::numeric_limits<std::int64_t>::max(), {{"x", NAN}});
  const Metrics metrics = read_metrics(path_);
  EXPECT_EQ(metrics.skipped, 0u);
  ASSERT_EQ(metrics.rows.size(), std::size(values) + 1);
  for (std::size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(metrics.rows[i].value("x")), std::bit_cast<std::uint64_t>(values[i]));
  }
  EXPECT_EQ(metrics.rows.back().step, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(metrics.rows.back().values.contains("x"));  // null keeps the name
  EXPECT_TRUE(std::isnan(metrics.rows.back().value("x")));
}

TEST_F(MetricsFileTest, AResumedRunHasNoLineDoubleOrHalf) {
  const auto write_steps = [](MetricsFile file, int first) {
    for (int step = first; step < 3; ++step) file.write(step, {{"a", 1.0 * step}});  // short: each byte costs an fsync
  };
  write_steps(MetricsFile::open(path_, -1), 0);
  const std::string uninterrupted = read_file(path_);
  // Killed at every byte after step 1, where a checkpoint was saved.
  const std::size_t saved = uninterrupted.find("{\"step\":2,");
  for (std::size_t size = saved; size <= uninterrupted.size(); ++size) {
    std::filesystem::resize_file(path_, size);
    MetricsFile file = MetricsFile::open(path_, 1);
    ASSERT_EQ(read_file(path_), uninterrupted.substr(0, saved)) << "killed at byte " << size;
    write_steps(std::move(file), 2);
    ASSERT_EQ(read_file(path_), uninterrupted) << "killed at byte " << size;
  }
}

TEST_F(MetricsFileTest, ResumingKeepsLinesAsTheyAreAndDropsWhatIsNoMetric) {
  write_file_atomically(path_, "{ \"step\" : 1, \"loss\":2.50}\nhello\n\n{\"step\":7}\n{\"step\":2}");
  MetricsFile file = MetricsFile::open(path_, 2);
  EXPECT_EQ(read_file(path_), "{ \"step\" : 1, \"loss\":2.50}\n{\"step\":2}\n");
  file.write(3, {{"loss", 1}});
  EXPECT_EQ(read_metrics(path_).rows.back().value("loss"), 1);
}

TEST_F(MetricsFileTest, ANewRunStartsEmptyAndAMissingFileIsMade) {
  write_file_atomically(path_, "{\"step\":0,\"loss\":1}\n");
  MetricsFile::open(path_, -1);
  EXPECT_EQ(read_file(path_), "");
  std::filesystem::remove(path_);
  MetricsFile::open(path_, 100).write(101, {{"loss", 1}});
  EXPECT_EQ(read_metrics(path_).rows.size(), 1u);
  const std::string message = message_of([&] { MetricsFile::open(path_ + ".d/metrics.jsonl", -1); });
  EXPECT_EQ(message.find(path_ + ".d/metrics.jsonl: cannot be written: No such file"), 0u) << message;
}

TEST_F(MetricsFileTest, StepsThatGoBackAndNamesThatBreakALineAreBugs) {
  MetricsFile file = MetricsFile::open(path_, -1);
  file.write(5, {});
  EXPECT_DEATH(file.write(4, {}), "step >= last_step_");
  EXPECT_DEATH(file.write(6, {{"a\"b", 1}}), "is_name");
  EXPECT_DEATH(file.write(6, {{"step", 1}}), "is_name");
}

TEST(ParseMetrics, LinesOfOneStepAreOneRow) {
  const Metrics metrics = parse_metrics(
      "{\"step\":1,\"loss\":3}\n{\"step\":1,\"validation_loss\":4,\"loss\":5}\r\n{\"step\":2,\"loss\":6}\n");
  ASSERT_EQ(metrics.rows.size(), 2u);
  EXPECT_EQ(metrics.rows[0].value("loss"), 5);
  EXPECT_EQ(metrics.rows[0].value("validation_loss"), 4);
  EXPECT_TRUE(std::isnan(metrics.rows[1].value("validation_loss")));
}

TEST(ParseMetrics, BadLinesAreSkippedAndCounted) {
  for (const char* line : {"{",
                           "{}",
                           "[]",
                           "x",
                           "{\"step\":1",
                           "{\"step\":1}}",
                           "{\"step\":1,}",
                           "{\"loss\":1}",
                           "{\"step\":1.5}",
                           "{\"step\":null}",
                           "{\"step\":99999999999999999999}",
                           "{\"step\":1,\"a\":nan}",
                           "{\"step\":1,\"a\":inf}",
                           "{\"step\":1,\"a\":-inf}",
                           "{\"step\":1,\"a\":1e999}",
                           "{\"step\":1,\"a\":\"b\"}",
                           "{\"step\":1,\"a\":true}",
                           "{\"step\":1,\"\":2}",
                           "{\"step\":1,\"a\\u0062\":2}",
                           "{\"step\":1,\"a\xff\":2}",
                           "{\"step\":1,\"a",
                           "{\"step\":-"}) {
    const Metrics metrics = parse_metrics(std::string("{\"step\":0}\n") + line + "\n{\"step\":2}\n");
    EXPECT_EQ(metrics.skipped, 1u) << line;
    EXPECT_EQ(metrics.rows.size(), 2u) << line;
  }
}

TEST(ParseMetrics, AnyDamageIsReadWithoutHarm) {
  const std::string good = "{\"step\":1,\"loss\":-1.5e-3,\"b\":null}\n{\"step\":2}\n";
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[i] = static_cast<char>(byte);
      const Metrics metrics = parse_metrics(bad);
      EXPECT_LE(metrics.rows.size() + metrics.skipped, 3u);
      for (const MetricRow& row : metrics.rows) {
        for (const auto& [name, value] : row.values) EXPECT_FALSE(std::isinf(value));
      }
    }
  }
}

}  // namespace
}  // namespace reel::report
