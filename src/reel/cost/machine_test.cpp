#include "reel/cost/machine.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "reel/base/error.h"
#include "reel/files/file.h"

namespace reel::cost {
namespace {

TEST(Machine, SavedMachineLoadsAsItWas) {
  Machine machine = describe_this_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory, 1e6);
  machine.cpu = "an \"odd\" \\ name";
  machine.target = "avx2";
  machine.threads = 2;
  machine.peak_one = 1e11, machine.peak_all = 2e11;
  machine.levels = {{"L1", 16384, 3e11, 2e11, 1e11}, {"memory", 3e8, 2e10, 1e10, 1.5e10}};
  const std::string path = testing::TempDir() + "reel_machine_test/machine.toml";
  save(machine, path);
  const Machine loaded = load_machine(path);
  EXPECT_EQ(loaded.cpu, machine.cpu);
  EXPECT_EQ(loaded.cores, machine.cores);
  EXPECT_EQ(loaded.l2, machine.l2);
  EXPECT_EQ(loaded.peak_all, machine.peak_all);
  ASSERT_EQ(loaded.levels.size(), 2u);
  EXPECT_EQ(loaded.levels[1].name, "memory");
  EXPECT_EQ(loaded.levels[1].copy, 1.5e10);
  std::remove(path.c_str());
}

TEST(Machine, AWrongFileIsAnErrorWithItsLine) {
  const std::string path = testing::TempDir() + "reel_machine_wrong.toml";
  write_file_atomically(path, "cpu = \"x\"\ntarget = \"avx2\"\ncores = \"two\"\n");
  try {
    load_machine(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(":3"), std::string::npos) << error.what();
  }
  std::remove(path.c_str());
}

TEST(Machine, OnlyTheSameCpuWithTheSameInstructionsIsTheSame) {
  Machine measured = describe_this_machine();
  measured.target = "avx2";
  Machine here = measured;
  here.memory = 1, here.cores = 1;
  EXPECT_TRUE(same_cpu(measured, here));
  here.target = "sse4";
  EXPECT_FALSE(same_cpu(measured, here));
  here = measured, here.cpu += "!";
  EXPECT_FALSE(same_cpu(measured, here));
}

TEST(Machine, TheEnvironmentNamesTheFile) {
  setenv("REEL_MACHINE", "/somewhere/m.toml", 1);
  EXPECT_EQ(machine_path(), "/somewhere/m.toml");
  unsetenv("REEL_MACHINE");
  EXPECT_TRUE(machine_path().ends_with("reel/machine.toml"));
}

}  // namespace
}  // namespace reel::cost
