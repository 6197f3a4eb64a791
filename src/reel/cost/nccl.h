// Which algorithm and protocol NCCL chooses for a collective: its own estimate, with the constants of its tuning tables
// (src/graph/tuning.cc of NCCL 2.30, and the NVIDIA documentation of NCCL_ALGO and NCCL_PROTO).
//
// The estimate is not a good time (30 % off and more on published measurements): it is only what the choice rests on.
// Nominal bandwidths enter, as NCCL knows only the topology.
#pragma once

#include "reel/cost/cluster.h"
#include "reel/cost/collective.h"

namespace reel::cost {

struct NcclChoice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
};

// For groups of at least two devices on `nodes` full or equally filled nodes. all_to_all and send_recv: pairs, Simple.
// Inside one node LL is left to the caller: NCCL gives it more channels and threads as sizes grow, so that no single
// line describes it (collective.cpp).
NcclChoice nccl_choice(const Cluster& cluster, const Collective& collective, std::int64_t nodes);

// NVLS is used from this many devices of a node on, where the switch has it.
bool uses_nvls(const Cluster& cluster, const Collective& collective);

}  // namespace reel::cost
