#include "reel/layout/numbering.h"

#include <gtest/gtest.h>

namespace reel::layout {
namespace {

using Ranks = std::vector<int>;

TEST(Numbering, HeadsInsideMakesNeighboursOfThoseThatTradeHeads) {
  const Degrees d{.ulysses = 2, .ring = 3};
  const Groups g = groups_of(d, 12, 9);  // rank 3 of the second group
  EXPECT_EQ(g.sequence, (Ranks{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(g.ulysses, (Ranks{8, 9}));
  EXPECT_EQ(g.ring, (Ranks{7, 9, 11}));
  EXPECT_EQ(g.data, (Ranks{3, 9}));
  EXPECT_EQ(place_of(d, 9).place, 3);
}

TEST(Numbering, KeysInsideMakesNeighboursOfThoseThatTradeKeys) {
  const Degrees d{.ulysses = 2, .ring = 3, .keys_inside = true};
  const Groups g = groups_of(d, 12, 9);  // rank 3 of the second group: Ulysses index 1, ring index 0
  EXPECT_EQ(g.sequence, (Ranks{6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(g.ulysses, (Ranks{6, 9}));
  EXPECT_EQ(g.ring, (Ranks{9, 10, 11}));
  EXPECT_EQ(g.data, (Ranks{3, 9}));
  EXPECT_EQ(g.world, (Ranks{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(place_of(d, 9).place, 1);
}

TEST(Numbering, DspHasNoOtherGroups) {
  const Groups g = groups_of({.dsp = 4}, 8, 6);
  EXPECT_EQ(g.sequence, (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(g.ulysses, Ranks{6});
  EXPECT_EQ(g.ring, Ranks{6});
  EXPECT_EQ(g.data, (Ranks{2, 6}));
}

TEST(Numbering, EveryPlaceHasOneRankAndAllAgree) {
  for (const char* text :
       {"", "dsp=3", "ulysses=3,ring=2", "ring=2,ulysses=3", "gather=2,ulysses=4", "ulysses-both=2"}) {
    const Degrees d = parse_degrees(text);
    const int ranks = 2 * d.ranks();
    for (int rank = 0; rank < ranks; ++rank) {
      const Place own = place_of(d, rank);
      EXPECT_EQ(rank_at(d, own.group, own.place), rank);
      const Groups g = groups_of(d, ranks, rank);
      EXPECT_EQ(g.sequence[static_cast<std::size_t>(own.place)], rank) << text;
      EXPECT_EQ(g.data[static_cast<std::size_t>(own.group)], rank) << text;
      EXPECT_EQ(g.ulysses[static_cast<std::size_t>(own.ulysses)], rank) << text;
      EXPECT_EQ(g.ring[static_cast<std::size_t>(own.ring)], rank) << text;
      for (const int other : g.ring) EXPECT_EQ(groups_of(d, ranks, other).ring, g.ring) << text;
      for (const int other : g.ulysses) EXPECT_EQ(groups_of(d, ranks, other).ulysses, g.ulysses) << text;
    }
  }
}

}  // namespace
}  // namespace reel::layout
