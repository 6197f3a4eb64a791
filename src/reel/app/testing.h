// The program as its tests call it. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "reel/app/app.h"

namespace reel::app::testing {

// Words in, exit code out; what is printed goes where the test prints.
inline int call(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"reel"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run(static_cast<int>(argv.size()), argv.data());
}

struct Result {
  int code;
  std::string out, err;
};

// The same, and what it printed.
inline Result reel(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = call(words);
  std::fflush(stdout);
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

}  // namespace reel::app::testing
