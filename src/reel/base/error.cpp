#include "reel/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace reel {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "reel: internal error at %s:%d: %s does not hold\n", file, line, condition);
  std::fprintf(stderr, "      this is a bug in reel: please report it with the command that led here\n");
  std::abort();
}

}  // namespace reel
