// Where the ranks of a job stand, and with whom they talk.
//
// Rank = ((stage * data + copy) * context + piece) * tensor + part: tensor groups are neighbours, stages are far apart,
// as Megatron places them. Of the context ranks, Ulysses groups are neighbours and rings go across them. Experts are
// spread over neighbours in data x context, or in tensor x data x context where they are whole. Nodes are filled in the
// order of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/base/sized.h"
#include "reel/cost/cluster.h"
#include "reel/cost/collective.h"
#include "reel/sim/job.h"
#include "reel/sim/workload.h"

namespace reel::sim {

enum Slot : std::int32_t {
  kTensorSlot,
  kContextSlot,     // the ranks that share a sequence by all-to-all or all-gather
  kDataSlot,        // ranks with the same weights: data x context
  kExpertSlot,      // ranks that share the experts
  kExpertDataSlot,  // ranks with the same experts
  kEmbeddingSlot,   // first and last stage, where they share the embedding
  kForwardOut,
  kForwardIn,
  kBackwardOut,
  kBackwardIn,
  kRingOut,
  kRingIn,
  kSlots
};

// How the groups of a slot lie on nodes; groups with the same placement are of one variant.
struct Spread {
  std::int64_t devices = 1, per_node = 1, sharing = 1;
  double slow = 1;  // its worst link
  bool operator==(const Spread&) const = default;
};

struct Coordinates {
  std::int64_t stage, copy, piece, part;
};

class Placement {
 public:
  Placement(const Job& job, const cost::Cluster& cluster);

  Coordinates coordinates(std::int64_t rank) const;

  // Adds groups, members and group_of for all ranks; the spreads are known afterwards.
  void add_groups(Workload& workload);
  const std::vector<Spread>& spreads(Slot slot) const { return spreads_[sized(slot)]; }

 private:
  std::int64_t rank(const Coordinates& at) const;
  std::int32_t variant(Slot slot, const Spread& placement);
  void add_group(Workload& workload, Slot slot, const std::vector<std::int64_t>& ranks);
  void add_channels(Workload& workload, Slot out, Slot in, const std::vector<std::int64_t>& to);
  Spread place(const std::vector<std::int64_t>& ranks) const;

  std::int64_t tensor_, context_, data_, pipeline_, ulysses_, ring_, expert_;
  std::int64_t expert_stride_;  // between neighbours that share the experts: tensor, or 1 where experts are whole
  bool embedding_, contexts_, rings_, moe_;
  std::int64_t devices_, per_node_;
  std::vector<double> slow_;  // by rank; empty: none is
  std::vector<Spread> spreads_[kSlots];
};

}  // namespace reel::sim
