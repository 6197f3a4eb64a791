// What tests of several rooms share.
#pragma once

#include <string>

#include "base/error.h"

namespace reel {

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
