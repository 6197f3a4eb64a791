// The Error of a file that grows line by line and could not.
#pragma once

#include <string>
#include <system_error>

#include "reel/base/error.h"

namespace reel::report {

[[noreturn]] inline void fail_to_write(const std::string& path, int reason) {  // an errno
  throw Error(fmt::format("cannot write {}: {}", path, std::generic_category().message(reason)),
              "check that the folder exists, that it may be written to and that the disk has room");
}

}  // namespace reel::report
