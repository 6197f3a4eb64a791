// Which rank does what: the places of a plan, and who stands at them.
//
// The ranks that share a clip are neighbours, `degrees.ranks()` of them: a sequence group. Sequence groups work on
// different clips (data parallel). In a group, place p has the p-th part of the tokens; its Ulysses index u and its
// ring index i are those of p = i * ulysses + u. Ranks with the same i have the same tokens in attention and different
// heads; those with the same u have the same heads and different tokens.
//
// Where the keys lie inside nodes ("ring=2,ulysses=4"), places stay as they are and other ranks stand there: rank
// u * ring + i of the group stands at place i * ulysses + u. For ulysses=2,ring=2 and 8 ranks:
//
//   rank                          0  1  2  3 | 4  5  6  7
//   place, "ulysses=2,ring=2"     0  1  2  3 | 0  1  2  3
//   place, "ring=2,ulysses=2"     0  2  1  3 | 0  2  1  3
#pragma once

#include <vector>

#include "reel/layout/degrees.h"

namespace reel::layout {

struct Place {
  int group = 0;  // of the sequence groups
  int place = 0;  // in its group
  int ulysses = 0, ring = 0;
};

Place place_of(const Degrees& degrees, int rank);
int rank_at(const Degrees& degrees, int group, int place);

// The groups that a rank is in, each in the order of its members' ranks in the group.
struct Groups {
  std::vector<int> world;     // all ranks, by sequence group and place
  std::vector<int> sequence;  // by place
  std::vector<int> data;      // the same place in every sequence group
  std::vector<int> ulysses;   // by Ulysses index
  std::vector<int> ring;      // by ring index
};
// `ranks`, all of them, is a multiple of degrees.ranks().
Groups groups_of(const Degrees& degrees, int ranks, int rank);

}  // namespace reel::layout
