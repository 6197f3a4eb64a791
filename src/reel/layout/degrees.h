// The plan of ranks that share a clip: how they share it, as it is written in run files, jobs and options.
//
//   ""                    one rank
//   "dsp=4"               switches between space and time (models with separate spatial and temporal attention)
//   "ulysses=4"           heads over 4 ranks; in such models in spatial attention alone
//   "ulysses-both=4"      the same, in spatial and in temporal attention
//   "ring=4"              keys around a ring of 4 ranks
//   "gather=4"            the keys that a rank needs, gathered before it computes (DSV's SCP)
//   "ulysses=2,ring=4"    heads over 2 ranks, keys around rings of 4; gather in place of ring likewise
//   "auto"                to be chosen
//
// The degree named first lies inside a node: over neighbouring ranks (numbering.h). "ring=4,ulysses=2" does the same
// work with the ranks in another order.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "reel/files/settings.h"

namespace reel::layout {

struct Degrees {
  int dsp = 1, ulysses = 1, ring = 1, gather = 1;
  bool both = false;         // ulysses in temporal attention, too
  bool keys_inside = false;  // ring or gather over neighbouring ranks, ulysses across
  bool automatic = false;    // the degrees are yet to be chosen

  int keys() const { return ring * gather; }  // ranks with different keys of the same heads
  int ranks() const { return dsp * ulysses * keys(); }
  std::string text() const;  // as it is parsed; degrees of 1 are left out
  bool operator==(const Degrees&) const = default;
};

// An Error says what cannot be read, or what does not go together.
Degrees parse_degrees(const std::string& text);

// An Error where `degrees` has one of `parts` ("gather", "auto", ...), which `who` does not build.
void refuse(const Degrees& degrees, std::initializer_list<std::string_view> parts, std::string_view who);

// The key `path` of a run file or job, which holds a plan; an Error names file and line as well.
void visit_degrees(Settings& settings, const std::string& path, Degrees& degrees, const std::string& meaning);

}  // namespace reel::layout
