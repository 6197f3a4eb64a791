#include "reel/data/split.h"

#include <map>
#include <set>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/data/words.h"

namespace reel::data {

Held hold_out(const std::vector<std::string>& names, std::int64_t validation, const std::string& where) {
  if (names.empty()) throw Error(fmt::format("{}: there are no clips", where), "check data.path");
  // FNV-1a leaves names that differ in their last letter near each other; Philox scatters them.
  std::map<std::uint32_t, std::set<std::string>> order;
  std::map<std::string, std::int64_t> count;
  for (const std::string& name : names) {
    if (++count[name] == 1) order[Random(stable_hash(name)).bits(0)].insert(name);
  }
  std::set<std::string> chosen;
  std::int64_t held = 0;
  for (const auto& [hash, same] : order) {
    for (const std::string& name : same) {
      if (held >= validation) break;
      chosen.insert(name);
      held += count[name];
    }
  }
  const auto all = static_cast<std::int64_t>(names.size());
  if (held >= all) {
    throw Error(
        fmt::format("{}: data.validation = {} leaves none of the {} clips for training", where, validation, all),
        "hold out fewer: data.validation = 0 holds out none");
  }
  Held result;
  for (std::int64_t clip = 0; clip < all; ++clip) {
    auto& part = chosen.contains(names[sized(clip)]) ? result.validation : result.training;
    part.push_back(clip);
  }
  return result;
}

}  // namespace reel::data
