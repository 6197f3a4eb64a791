// A folder of a test's own.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "reel/base/error.h"

namespace reel {

// Made when the object is, gone with all that is in it when the object goes.
class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "reel_test_XXXXXX").string()) {
    REEL_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TempFolder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace reel
