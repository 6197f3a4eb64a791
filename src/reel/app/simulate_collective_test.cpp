#include <gtest/gtest.h>

#include <vector>

#include "reel/app/testing.h"
#include "reel/files/csv.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"

namespace reel::app {
namespace {

using testing::call;

std::string cluster(const std::string& name) { return REEL_SOURCE_DIR "/clusters/" + name + ".toml"; }

std::string path_of(const std::string& name) {
  static const TempFolder folder;
  return folder / name;
}

std::string written(const std::string& name, const std::string& text) {
  write_file_atomically(path_of(name), text);
  return path_of(name);
}

TEST(SimulateCollective, PricesEveryRowInItsOrder) {
  const std::string table = written("calls.csv",
                                    "op,devices,per_node,bytes\n"
                                    "all_reduce,64,8,1048576\nsend_recv,2,1,1e9\nall_reduce,1,1,8\nbroadcast,8,8,0\n");
  const std::string out = path_of("times.csv");
  ASSERT_EQ(call({"simulate", "collective", "--cluster", cluster("a100-azure"), "--table", table, "--out", out}), 0);
  const Csv times = Csv::load(out);
  ASSERT_EQ(times.rows(), 4U);
  EXPECT_EQ(times.text(1, "op"), "send_recv");
  EXPECT_NEAR(times.number(0, "seconds"), 157e-6, 0.1 * 157e-6);  // published
  EXPECT_EQ(times.number(2, "seconds"), 0);
  EXPECT_EQ(times.text(0, "algorithm"), "tree");
  EXPECT_EQ(times.text(0, "basis"), "measured");
}

TEST(SimulateCollective, KeepsEveryColumnOfTheTable) {
  const std::string table =
      written("named.csv", "case,op,devices,per_node,bytes,measured_us\n\"a, b\",alltoall,12,8,1e6,81.5\n");
  const std::string out = path_of("named-times.csv");
  ASSERT_EQ(call({"simulate", "collective", "--cluster", cluster("a100-azure"), "--table", table, "--out", out}), 0);
  const Csv times = Csv::load(out);
  EXPECT_EQ(times.text(0, "case"), "a, b");
  EXPECT_EQ(times.text(0, "op"), "alltoall");
  EXPECT_EQ(times.text(0, "measured_us"), "81.5");
  EXPECT_GT(times.number(0, "seconds"), 0);
}

TEST(SimulateCollective, MistakesExitWithTwo) {
  const auto price = [](const char* text) {
    return call({"simulate", "collective", "--cluster", cluster("a100-azure"), "--table", written("bad.csv", text)});
  };
  EXPECT_EQ(price("op,devices,per_node\nall_reduce,8,8\n"), 2);
  EXPECT_EQ(price("op,devices,per_nod,bytes\nall_reduce,8,8,1\n"), 2);
  EXPECT_EQ(price("op,devices,per_node,bytes\nall_reduc,8,8,1\n"), 2);
  EXPECT_EQ(price("op,devices,per_node,bytes\nall_reduce,8,8,-1\n"), 2);
  EXPECT_EQ(price("op,devices,per_node,bytes\nall_reduce,16,16,1\n"), 2);
  EXPECT_EQ(call({"simulate", "collective", "--cluster", "no-such-cluster", "--table", "x.csv"}), 2);
  EXPECT_EQ(call({"simulate", "collective", "--table", "x.csv"}), 2);
}

TEST(SimulateCalibrate, WritesAClusterThatCanBeUsed) {
  std::string text = "op,devices,per_node,bytes,seconds\n";
  for (const int devices : {8, 16, 32}) {
    for (double bytes = 1e6; bytes < 2e9; bytes *= 4) {
      text += fmt::format("all_gather,{},8,{},{}\n", devices, bytes, 1e-4 + bytes / 50e9);
    }
  }
  const std::string out = path_of("fitted.toml");
  ASSERT_EQ(call({"simulate", "calibrate", "--cluster", cluster("a100-selene"), "--table", written("nccl.csv", text),
                  "--out", out}),
            0);
  EXPECT_NE(read_file(out).find("basis = \"measured\""), std::string::npos);
  EXPECT_EQ(call({"simulate", "collective", "--cluster", out, "--table",
                  written("one.csv", "op,devices,per_node,bytes\nall_gather,16,8,1e8\n")}),
            0);
  EXPECT_EQ(call({"simulate", "calibrate", "--cluster", cluster("a100-selene"), "--table", "/no/such/file"}), 2);
}

TEST(SimulateOverlap, TakesWhatWasMeasuredAndModelsTheRest) {
  const std::string table =
      written("kernels.csv", "kernel,alone,sms,memory,overlap\nmy_gemm,10,1,0.2,1\nmy_norm,10,0.1,0.1,1\n");
  const std::string seen = written("seen.csv", "kernel,alone,overlapped\nmy_norm,10,15\n");
  const std::string out = path_of("overlapped.csv");
  ASSERT_EQ(call({"simulate", "overlap", "--cluster", cluster("a100-azure"), "--table", table, "--measured", seen,
                  "--out", out}),
            0);
  const Csv result = Csv::load(out);
  EXPECT_NEAR(result.number(0, "slowdown"), 108.0 / (108 - 24), 1e-9);
  EXPECT_EQ(result.number(1, "overlapped"), 15);
  EXPECT_EQ(call({"simulate", "overlap", "--cluster", cluster("a100-azure"), "--table",
                  written("bad.csv", "kernel,alone,sms,memory\nx,1,2,0\n")}),
            2);
}

}  // namespace
}  // namespace reel::app
