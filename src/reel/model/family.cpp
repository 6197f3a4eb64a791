#include "reel/model/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/error.h"
#include "reel/model/latte.h"
#include "reel/model/stdit3.h"
#include "reel/model/wan.h"

namespace reel::model {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all = {&wan_family(), &stdit3_family(), &latte_family()};
  return all;
}

const Family& family_of(const ModelConfig& config) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family* family) { return family->name == config.family; });
  REEL_CHECK(found != families().end());  // files and flags are checked when they are read
  return **found;
}

std::string names_of_families(bool full_attention) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (family->full_attention == full_attention) names.push_back('"' + family->name + '"');
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

void refuse(const std::string& what, const std::string& hint) { throw Error("model: " + what, hint); }

}  // namespace reel::model
