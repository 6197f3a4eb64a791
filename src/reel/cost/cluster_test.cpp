#include "reel/cost/cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "reel/base/testing.h"
#include "reel/files/file.h"

namespace reel::cost {
namespace {

const char* const kShipped[] = {"a100-selene", "a100-azure", "h100-ndr400", "h800", "b200"};

std::string shipped(const std::string& name) { return REEL_SOURCE_DIR "/clusters/" + name + ".toml"; }

TEST(Cluster, EveryShippedFileLoadsByPathAndByName) {
  setenv("REEL_CLUSTERS", REEL_SOURCE_DIR "/clusters", 1);
  for (const char* name : kShipped) {
    const Cluster by_path = load_cluster(shipped(name)), by_name = load_cluster(name);
    EXPECT_EQ(by_path.name, name);
    EXPECT_EQ(by_name.path, shipped(name));
    EXPECT_FALSE(by_path.fabric.origin.source.empty()) << name;
    EXPECT_FALSE(by_path.device.gemm.origin.source.empty()) << name;
  }
  unsetenv("REEL_CLUSTERS");
}

TEST(Cluster, UnknownNameNamesTheNearest) {
  setenv("REEL_CLUSTERS", REEL_SOURCE_DIR "/clusters", 1);
  EXPECT_EQ(message_of([] { load_cluster("h100-ndr40"); }),
            "there is no cluster 'h100-ndr40' | did you mean 'h100-ndr400'?");
  unsetenv("REEL_CLUSTERS");
  EXPECT_NE(message_of([] { load_cluster("./nowhere.toml"); }).find("./nowhere.toml"), std::string::npos);
}

// The file with one line changed.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = read_file(shipped("a100-selene"));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Cluster, UnknownKeysAndWrongValuesAreNamedWithTheirLine) {
  const auto error = [](const std::string& from, const std::string& to) {
    return message_of([&] { parse_cluster(changed(from, to), "x.toml"); });
  };
  EXPECT_EQ(error("\ninter_latency", "\ninter_latncy").substr(0, 7), "x.toml:");
  EXPECT_NE(error("\ninter_latency", "\ninter_latncy").find("did you mean 'fabric.inter_latency'?"), std::string::npos);
  EXPECT_NE(error("sms = 108", "sms = -1").find("device.sms"), std::string::npos);
  EXPECT_NE(error("peak_bf16 = 312e12", "").find("gemm.peak_bf16"), std::string::npos);
  EXPECT_NE(error("nic = 25e9", "").find("fabric.nic"), std::string::npos);
  EXPECT_NE(error("basis = \"published\"", "basis = \"guessed\"").find("device.basis"), std::string::npos);
  EXPECT_NE(error("fitted_devices = [2, 8]", "fitted_devices = [8, 2]").find("fitted_devices"), std::string::npos);
  EXPECT_NE(error("efficiency_bf16 = 0.82", "efficiency_bf16 = 1.2").find("gemm.efficiency_bf16"), std::string::npos);
}

TEST(Cluster, OriginSaysHowFarASectionIsToBeTrusted) {
  const Cluster selene = load_cluster(shipped("a100-selene")), azure = load_cluster(shipped("a100-azure"));
  EXPECT_EQ(selene.fabric.origin.kind(), Basis::kPublished);
  EXPECT_EQ(azure.fabric.origin.kind(), Basis::kMeasured);
  EXPECT_GT(azure.fabric.origin.error, 0);
  EXPECT_STREQ(basis_name(Basis::kAssumed), "assumed");
}

}  // namespace
}  // namespace reel::cost
