#include "reel/app/lists_file.h"

#include <fmt/format.h>

#include "reel/app/app.h"
#include "reel/base/error.h"

namespace reel::app {

void tell_assumed_order(const std::string& path, const lists::OrderedLists& lists) {
  if (lists.order.empty()) {
    warn(fmt::format("{}: there is no tensor 'order': tokens are taken to be in raster order", path));
  }
}

std::int64_t head_dim_of(const std::string& path, std::int64_t known, std::int64_t given, std::int64_t assumed) {
  if (given != 0 && known != 0 && given != known) {
    throw Error(fmt::format("--head-dim is {}, but {} is of heads of {} floats", given, path, known),
                "leave the option out: the file says it");
  }
  if (known == 0 && given == 0) {
    warn(fmt::format("{}: head_dim is not in it: {} is assumed (--head-dim)", path, assumed));
    return assumed;
  }
  return known != 0 ? known : given;
}

}  // namespace reel::app
