#include "reel/cost/nccl.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reel/base/sized.h"

namespace reel::cost {

namespace {

// By protocol: LL, LL128, Simple. Latencies in microseconds, bandwidths in GB/s, as in NCCL.
using ByProtocol = std::array<double, 3>;

constexpr ByProtocol kTreeBase = {6.8, 14.0, 8.4}, kRingBase = {6.6, 14.0, 8.4};
constexpr ByProtocol kTreeLink = {0.6, 1.25, 4.0}, kRingLink = {0.6, 1.9, 3.4};
constexpr ByProtocol kTreeNet = {5.0, 8.5, 14.0}, kRingNet = {2.7, 4.0, 14.0};
constexpr double kNetOverhead = 2;      // of every step of a ring that leaves the node; three times that for Simple
constexpr double kTreePattern = 0.85;   // bandwidth of a tree in which nodes have two children: from three nodes on
constexpr double kRingSimpleNet = 1.4;  // latency of Simple rings between nodes from 64 bytes a device and channel on

// By generation: most bandwidth of LL on 1, 2 and more nodes; of a channel in LL128 rings; of a channel in trees.
struct Generation {
  std::array<double, 3> ll, tree, tree_ll128;
  double ring_ll128;
};
// LL between nodes is limited by the host, so that the row of the Ampere generation holds for all.
constexpr Generation kAmpere = {{87.7, 22.5, 19.0}, {24.0, 23.6, 17.8}, {20, 20, 20}, 20};
constexpr Generation kHopper = {{141.0, 22.5, 19.0}, {38.7, 41.4, 36.0}, {36.7, 36.7, 29.0}, 36.7};
constexpr Generation kBlackwell = {{282.0, 22.5, 19.0}, {70.0, 42.8, 24.0}, {55.6, 31.67, 20}, 40};

const Generation& generation(const std::string& architecture) {
  return architecture == "ampere" ? kAmpere : architecture == "hopper" ? kHopper : kBlackwell;
}

// Bandwidth of trees by the logarithm of bytes / 64.
constexpr std::array<std::array<double, 24>, 3> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

double tree_correction(std::size_t protocol, double bytes) {
  const int at = std::max(0, static_cast<int>(std::log2(std::max(bytes / 64, 1.0))));
  return at < 24 ? kTreeCorrection[protocol][sized(at)] : 1;
}

struct Group {
  double devices, per_node, nodes, bytes;
  double rounds;  // 2: all_reduce goes around twice
  double bus, channels;
  std::size_t row;  // of the tables: 1, 2, more nodes
};

double ring_estimate(const Group& g, const Generation& t, std::size_t p) {
  const double bandwidth = p == 0   ? std::min(t.ll[g.row], g.bus / 2)
                           : p == 1 ? std::min(0.92 * g.bus, g.channels * t.ring_ll128)
                                    : g.bus;
  const double steps = g.rounds * (g.devices - 1), net_steps = g.rounds * (g.nodes - 1);
  const double link = g.nodes > 1 ? std::max(kRingLink[p], kNetOverhead * (p == 2 ? 3 : 1)) : kRingLink[p];
  double latency = kRingBase[p] + (steps - net_steps) * link + net_steps * kRingNet[p];
  if (p == 2 && g.nodes > 1 && g.rounds > 1 && g.bytes / (g.channels * g.devices) >= 64) latency *= kRingSimpleNet;
  return latency + g.bytes / 1e3 / (bandwidth * g.devices / steps);
}

double tree_estimate(const Group& g, const Generation& t, std::size_t p) {
  double bandwidth = p == 0 ? std::min(g.bus / 3.8, t.ll[g.row])
                     : p == 1
                         ? std::min(g.bus * (g.nodes > 1 ? 120.0 / 128 : 7.0 / 9), g.channels * t.tree_ll128[g.row])
                         : std::min(0.92 * g.bus, g.channels * t.tree[g.row]);
  if (g.nodes > 2) bandwidth *= kTreePattern;
  const double latency =
      kTreeBase[p] + 2 * ((g.per_node - 1) * kTreeLink[p] + std::floor(std::log2(g.nodes)) * kTreeNet[p]);
  return latency + g.bytes / 1e3 / (bandwidth * 0.5 * tree_correction(p, g.bytes));
}

}  // namespace

bool uses_nvls(const Cluster& cluster, const Collective& c) {
  // On H100 and H200 rings are as fast up to half of a node (published: 363 and 363 GB/s for 4 of 8).
  return cluster.fabric.nvls_bandwidth > 0 && c.op == CollectiveOp::kAllReduce &&
         2 * std::min(c.per_node, c.devices) > cluster.fabric.per_node;
}

NcclChoice nccl_choice(const Cluster& cluster, const Collective& c, std::int64_t nodes) {
  if (c.op == CollectiveOp::kAllToAll || c.op == CollectiveOp::kSendRecv) return {Algorithm::kPairs, Protocol::kSimple};
  const Fabric& f = cluster.fabric;
  const Generation& tables = generation(cluster.device.architecture);
  const double per_node = static_cast<double>(c.devices) / static_cast<double>(nodes);
  const double nics = std::min(per_node, static_cast<double>(f.nics));
  const Group group{static_cast<double>(c.devices),
                    per_node,
                    static_cast<double>(nodes),
                    c.bytes,
                    c.op == CollectiveOp::kAllReduce ? 2.0 : 1.0,
                    (nodes == 1 ? f.nvlink : std::min(f.nvlink, 0.96 * f.nic * nics)) / 1e9,  // 12 of 12.5 GB/s
                    nodes == 1 ? static_cast<double>(f.channels) : nics,
                    nodes == 1   ? 0U
                    : nodes == 2 ? 1U
                                 : 2U};
  NcclChoice best;
  double least = INFINITY;
  for (std::size_t p = nodes == 1 ? 1 : 0; p < 3; ++p) {
    const double ring = ring_estimate(group, tables, p);
    if (ring < least) least = ring, best = {Algorithm::kRing, static_cast<Protocol>(p)};
    if (c.op != CollectiveOp::kAllReduce || c.devices <= 2) continue;
    const double tree = tree_estimate(group, tables, p);
    if (tree < least) least = tree, best = {Algorithm::kTree, static_cast<Protocol>(p)};
  }
  return best;
}

}  // namespace reel::cost
