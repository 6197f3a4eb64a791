#include "reel/files/shipped.h"

#include <gtest/gtest.h>

namespace reel {
namespace {

TEST(Shipped, FilesOfTheSourceTreeAreFoundFromAnyFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path("/");
  const std::string found = shipped_file("configs", "stdit3-bench.toml");
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(found)) << found;
  EXPECT_EQ(shipped_file("configs", "no-such-file.toml"), "configs/no-such-file.toml");
}

}  // namespace
}  // namespace reel
