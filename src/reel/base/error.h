// The two ways things go wrong.
//
// A user's mistake (bad file, bad flag, impossible plan) throws reel::Error: what is wrong and where, and a hint that
// says what to do. The program prints both and exits with 2. A broken promise inside reel is REEL_CHECK: it prints the
// place and aborts, in release builds too.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace reel {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string hint = {}) : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace reel

#define REEL_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::reel::check_failed(#condition, __FILE__, __LINE__))
