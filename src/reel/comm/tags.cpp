#include "reel/comm/tags.h"

#include <fmt/format.h>

#include "reel/base/error.h"

namespace reel::comm {

const std::vector<int>& Tags::of(const std::string& name, const std::vector<int>& members, int most) {
  const auto [at, is_new] = known_.try_emplace({name, members});
  if (!is_new) return at->second;
  for (const int member : members) {
    const int groups = groups_[member]++;
    if (groups > most / kTags - 1) {
      throw Error(fmt::format("this is the {}th group of ranks with rank {} in it, and MPI has tags for {}", groups + 1,
                              member, most / kTags),
                  "use an MPI with more tags: Open MPI and MPICH have them");
    }
    at->second.push_back(groups * kTags);
  }
  return at->second;
}

}  // namespace reel::comm
