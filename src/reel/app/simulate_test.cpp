#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "reel/app/testing.h"
#include "reel/files/csv.h"
#include "reel/files/file.h"

namespace reel::app {
namespace {

using testing::call;

const std::string kJob = REEL_SOURCE_DIR "/jobs/gpt-175b-1024.toml";
const std::string kCluster = REEL_SOURCE_DIR "/clusters/h100-ndr400.toml";

TEST(SimulateVerb, WritesOneFlatObjectOfResults) {
  const std::string path = ::testing::TempDir() + "reel_simulate.json";
  ASSERT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--json", path, "--price", "2"}), 0);
  const auto json = nlohmann::json::parse(read_file(path));
  for (const char* name : {"step_seconds", "tokens_per_second_per_device", "model_flops_utilisation", "memory_gib_peak",
                           "breakdown_compute", "breakdown_optimizer", "simulate_seconds", "price_step", "price_run"}) {
    EXPECT_TRUE(json[name].is_number()) << name;
  }
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["devices"], 1024);
  double sum = 0;
  for (const auto& [name, value] : json.items()) {
    EXPECT_FALSE(value.is_structured()) << name;
    if (name.starts_with("breakdown_")) sum += value.get<double>();
  }
  EXPECT_NEAR(sum, json["step_seconds"].get<double>(), 1e-9);
  std::remove(path.c_str());
}

TEST(SimulateVerb, AJobThatDoesNotFitIsNoError) {
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--set", "batch.micro=16"}), 0);
}

TEST(SimulateVerb, AWordIsASubcommandFirstAndAFileSecond) {
  EXPECT_EQ(call({"simulate", "search"}), 2);  // the subcommand, without its job
  EXPECT_EQ(call({"simulate", "no-such-file.toml", "--cluster", kCluster}), 2);
  EXPECT_EQ(call({"simulate", "search", kJob, "--cluster", kCluster, "--devices", "64", "--set", "model.layers=8",
                  "--set", "batch.global=8", "--top", "2"}),
            0);
}

TEST(SimulateVerb, MistakesOfTheUserExitWithTwo) {
  EXPECT_EQ(call({"simulate"}), 2);
  EXPECT_EQ(call({"simulate", kJob}), 2);
  EXPECT_EQ(call({"simulate", kJob, "--cluster", "h100"}), 2);
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--set", "parallel.tenser=2"}), 2);
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--devices", "1000"}), 2);
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--trace", "/no/such/folder/t.json"}), 2);
  EXPECT_EQ(call({"simulate", "--table", "/no/such/table.csv", "--cluster", kCluster, "--out", "/tmp/x.csv"}), 2);
}

TEST(SimulateVerb, OptionsThatWouldDoNothingAreRefused) {
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--out", "x.csv"}), 2);
  EXPECT_EQ(call({"simulate", kJob, "--cluster", kCluster, "--ranks", "0"}), 2);
  for (const char* option : {"--json", "--trace", "--set"})
    EXPECT_EQ(call({"simulate", "--table", "jobs.csv", "--out", "x.csv", "--cluster", kCluster, option, "x"}), 2)
        << option;
}

TEST(SimulateVerb, WhatWasNeverComparedIsNull) {
  const std::string path = ::testing::TempDir() + "reel_simulate_h800.json";
  ASSERT_EQ(call({"simulate", REEL_SOURCE_DIR "/jobs/echo-gpt-175b-h800.toml", "--cluster",
                  REEL_SOURCE_DIR "/clusters/h800.toml", "--json", path}),
            0);
  const auto json = nlohmann::json::parse(read_file(path));
  EXPECT_TRUE(json["error_band"].is_null());
  EXPECT_GT(json["error_band_guess"].get<double>(), 0);
  EXPECT_NE(json["assumed_matrix_products"].get<std::string>().find("k_half"), std::string::npos);
  std::remove(path.c_str());
}

TEST(SimulateVerb, TablesComeBackWithResults) {
  const std::string in = ::testing::TempDir() + "reel_jobs_in.csv", out = ::testing::TempDir() + "reel_jobs_out.csv";
  write_file_atomically(in, "model.hidden,model.layers,parallel.tensor\n4096,8,2\n4096,8,4\n");
  ASSERT_EQ(call({"simulate", "--table", in, "--cluster", kCluster, "--out", out}), 0);
  const Csv csv = Csv::load(out);
  ASSERT_EQ(csv.rows(), 2u);
  EXPECT_EQ(csv.text(1, "parallel.tensor"), "4");
  EXPECT_GT(csv.number(0, "step_seconds"), csv.number(1, "step_seconds"));
  std::remove(in.c_str());
  std::remove(out.c_str());
}

}  // namespace
}  // namespace reel::app
