// How long a collective takes on a cluster, as NCCL runs it.
//
// NCCL cuts a collective into steps around a ring, up and down a tree, or through a switch that adds (NVLS), and moves
// bytes by one of three protocols: LL (a flag with every 4 bytes: quick, little bandwidth), LL128 (a flag with every
// 120) and Simple (whole chunks, a fence for each). The choice is NCCL's (nccl.h); the time of what was chosen is
//
//   base + steps inside nodes x intra_latency + steps between nodes x inter_latency + bytes of the bus / bandwidth
//
// with the constants of the cluster's file (Fabric). Chunks follow each other through a tree: filling it is added.
//
// All devices of the group start together. What a group that spans nodes gets of the network: each device has its own
// NIC as long as a node has as many, and `sharing` groups of this shape that run at the same time share them.
#pragma once

#include <cstdint>
#include <string>

#include "reel/cost/cluster.h"

namespace reel::cost {

enum class CollectiveOp { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendRecv, kBroadcast };
const char* collective_name(CollectiveOp op);                // "all_reduce", as in tables
CollectiveOp collective_from_name(const std::string& name);  // also nccl-tests' "alltoall_perf"; Error: the nearest

enum class Algorithm { kRing, kTree, kNvls, kPairs };  // pairs: every device sends to its peers directly
enum class Protocol { kLL, kLL128, kSimple };
const char* algorithm_name(Algorithm algorithm);  // "ring", ...
const char* protocol_name(Protocol protocol);     // "LL", "LL128", "Simple"

// `bytes` is the size column of nccl-tests: all_reduce, broadcast: the buffer; all_gather: the gathered result;
// reduce_scatter: the input of one device; all_to_all: all that one device sends, its own part included; send_recv: one
// message, every device sending to the next and receiving from the one before.
struct Collective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t devices = 1;
  std::int64_t per_node = 1;  // devices of the group on a node, the last may have fewer
  double bytes = 0;
  std::int64_t sharing = 1;  // groups of this shape that use the node's NICs at the same time, this one included
};

struct CollectiveCost {
  double seconds = 0;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  std::int64_t channels = 0;  // SMs that it occupies meanwhile
  double memory_bytes = 0;    // read and written in the memory of a device
  bool across = false;        // between nodes: it goes through NICs, else through the links of a node
  double load = 0;            // share of their bandwidth that it takes while it runs, 0 to 1
  bool outside_fit = false;   // bytes or devices beyond what the constants were fitted on
};

// Where nodes have unequal shares of a group, the smallest one limits the rings through all of them: it is priced as if
// all had the largest share up to that one that goes into the group. 12 devices as 8 and 4 are three nodes of 4.
std::int64_t even_share(std::int64_t devices, std::int64_t smallest);

// 0 seconds for one device; the latency alone for no bytes. An Error where a node has fewer devices than the group
// wants on one.
CollectiveCost cost_of(const Cluster& cluster, const Collective& collective);

// A message of one device to one other, nothing else on the wires: a pipeline's hop. It occupies no SMs.
CollectiveCost send_cost(const Cluster& cluster, double bytes, bool across_nodes, std::int64_t sharing = 1);

}  // namespace reel::cost
