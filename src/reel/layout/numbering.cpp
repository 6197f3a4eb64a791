#include "reel/layout/numbering.h"

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::layout {

Place place_of(const Degrees& d, int rank) {
  const int group = rank / d.ranks(), in_group = rank % d.ranks();
  const int place = d.keys_inside ? in_group % d.keys() * d.ulysses + in_group / d.keys() : in_group;
  return {group, place, place % d.ulysses, place / d.ulysses % d.keys()};
}

int rank_at(const Degrees& d, int group, int place) {
  const int in_group = d.keys_inside ? place % d.ulysses * d.keys() + place / d.ulysses : place;
  return group * d.ranks() + in_group;
}

Groups groups_of(const Degrees& d, int ranks, int rank) {
  REEL_CHECK(rank >= 0 && rank < ranks && ranks % d.ranks() == 0);
  const Place own = place_of(d, rank);
  const auto places = [&](int first, int step, int count) {
    std::vector<int> members;
    members.reserve(sized(count));
    for (int i = 0; i < count; ++i) members.push_back(rank_at(d, own.group, first + i * step));
    return members;
  };
  Groups groups;
  groups.sequence = places(0, 1, d.ranks());
  groups.ulysses = places(own.place - own.ulysses, 1, d.ulysses);
  groups.ring = places(own.place - own.ring * d.ulysses, d.ulysses, d.keys());
  for (int g = 0; g < ranks / d.ranks(); ++g) {
    groups.data.push_back(rank_at(d, g, own.place));
    for (int place = 0; place < d.ranks(); ++place) groups.world.push_back(rank_at(d, g, place));
  }
  return groups;
}

}  // namespace reel::layout
