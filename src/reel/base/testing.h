// What tests of several rooms share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "reel/base/error.h"

namespace reel {

// REEL_TEST_SEED chooses other random cases (make soak).
inline std::uint64_t test_seed() {
  const char* seed = std::getenv("REEL_TEST_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
}

// "what | hint" of the Error that work() throws.
std::string message_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

}  // namespace reel
