// What the tests of this room share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "reel/cost/cluster.h"

namespace reel::cost {

// A cluster that comes with reel.
inline Cluster cluster(const std::string& name) { return load_cluster(REEL_SOURCE_DIR "/clusters/" + name + ".toml"); }

// The folder of published measurements: $REEL_DATA, or ../shared/data beside the source tree; "" where it is not there.
inline std::string data_file(const std::string& name) {
  const char* given = std::getenv("REEL_DATA");
  const std::string folder = given != nullptr && *given != '\0' ? given : REEL_SOURCE_DIR "/../shared/data";
  const std::string path = folder + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace reel::cost

// The path of a published table, or the test is skipped and says so.
#define REEL_DATA_OR_SKIP(variable, name)                                           \
  const std::string variable = ::reel::cost::data_file(name);                       \
  if (variable.empty()) {                                                           \
    GTEST_SKIP() << name << " is not there: set REEL_DATA to the folder of tables"; \
  }
