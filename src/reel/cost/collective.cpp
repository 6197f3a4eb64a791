#include "reel/cost/collective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/cost/nccl.h"
#include "reel/files/nearest.h"

namespace reel::cost {

namespace {

// The shape of the model; what differs between clusters is in Fabric. Chosen on published nccl-tests results of A100
// (2, 8, 16 and 64 GPUs), where the errors they leave are in docs/validation.md.
constexpr double kRingStep = 0.25;  // latency of a ring's step between nodes, as a share of a tree's
constexpr double kTreeChunk = 2e6;  // bytes that fill one level of a tree, at most
constexpr double kTreeChunks = 6;   // pieces that smaller buffers are cut into
constexpr double kWrongChoice = 2;  // tree by LL where LL128 is better: 250 instead of 131 us (A100, 64 GPUs, 128 KB)
constexpr double kSoft = 1.7;       // exponent of the soft minimum of LL and the others inside a node
constexpr double kNorm = 5;         // of the p-norm of the times of links and NICs: 365 and 390 GB/s give 327 (H100)
constexpr double kNvlsPart = 0.04;  // bandwidth of NVLS lost by each device that a node has less (H200: 5, 6, 7 of 8)
constexpr double kPeerStep = 0.5;   // latency of a further peer in an exchange of pairs, as a share of a step's
constexpr double kLargeMessage = 256e6;  // from which on NCCL gives a pair of devices all of its channels

constexpr std::array<const char*, 6> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                               "all_to_all", "send_recv",  "broadcast"};

struct Shape {
  double devices, per_node, nodes;
  double nics;  // of a node, that this group has for itself
};

Shape shape_of(const Cluster& cluster, const Collective& c) {
  const auto refuse = [](const std::string& what, const std::string& hint) { throw Error(what, hint); };
  const Fabric& f = cluster.fabric;
  if (c.devices < 1 || c.per_node < 1 || c.sharing < 1) {
    refuse(fmt::format("{} of {} devices, {} on a node, {} sharing", collective_name(c.op), c.devices, c.per_node,
                       c.sharing),
           "all of them are at least 1");
  }
  if (!(c.bytes >= 0) || std::isinf(c.bytes)) {
    refuse(fmt::format("{} of {} bytes", collective_name(c.op), c.bytes), "bytes are 0 or more");
  }
  std::int64_t per_node = std::min(c.per_node, c.devices);
  if (per_node > f.per_node) {
    refuse(fmt::format("{} devices of a group on a node of {}", per_node, cluster.name),
           fmt::format("a node has {} devices", f.per_node));
  }
  if (c.devices % per_node != 0) per_node = even_share(c.devices, c.devices % per_node);
  const std::int64_t nodes = c.devices / per_node;
  const auto each = static_cast<double>(per_node), sharing = static_cast<double>(c.sharing);
  return {static_cast<double>(c.devices), each, static_cast<double>(nodes),
          std::min(each, static_cast<double>(f.nics) / sharing)};
}

double p_norm(double a, double b) { return std::pow(std::pow(a, kNorm) + std::pow(b, kNorm), 1 / kNorm); }

// How often the bytes of nccl-tests cross the bus of a device, as its busbw column counts them.
double bus_factor(CollectiveOp op, double devices) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * (devices - 1) / devices;
    case CollectiveOp::kSendRecv:
    case CollectiveOp::kBroadcast:
      return 1;
    default:
      return (devices - 1) / devices;
  }
}

double rounds(CollectiveOp op) { return op == CollectiveOp::kAllReduce ? 2 : 1; }

bool adds(CollectiveOp op) { return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter; }

// Seconds that bytes take through the links of devices and through the NICs of a node. Around a ring all bytes of the
// bus cross each of them. Two trees carry half of the buffer each, up and down: the NICs of a node that is inside one
// tree and a leaf of the other see it twice in each direction, but of two nodes neither is inside (once), of three one
// is in half of the way (one and a half times).
double wire_seconds(const Fabric& f, const Collective& c, const Shape& s, double link, bool tree) {
  const double bus = c.bytes * bus_factor(c.op, s.devices);
  if (s.nodes == 1) return bus / link;
  const double between = tree ? c.bytes * std::min(2.0, s.nodes / 2) : bus;
  return p_norm(bus / link, between / (s.nics * f.inter_bandwidth));
}

// Ring or tree by LL128 or Simple, or NVLS.
double bulk_seconds(const Fabric& f, const Collective& c, const Shape& s, const NcclChoice& choice) {
  const auto p = sized(choice.protocol);
  const double levels = std::log2(s.nodes);
  if (choice.algorithm == Algorithm::kNvls) {
    const double part = 1 - kNvlsPart * (static_cast<double>(f.per_node) - s.per_node);
    return f.base[2] + f.intra_latency[2] + 2 * levels * f.inter_latency +
           wire_seconds(f, c, s, f.nvls_bandwidth * part, false);
  }
  const bool tree = choice.algorithm == Algorithm::kTree;
  const double inside = tree ? 2 * (s.per_node - 1) : rounds(c.op) * (s.devices - s.nodes);
  const double between = tree ? 2 * levels : rounds(c.op) * (s.nodes - 1) * kRingStep;
  double fill = 0;
  if (tree && s.nodes > 1) {
    fill = 2 * levels * std::min(c.bytes / kTreeChunks, kTreeChunk) / (s.nics * f.inter_bandwidth);
  }
  const double adding = choice.protocol == Protocol::kSimple && adds(c.op) ? c.bytes / f.reduce_bandwidth : 0;
  return f.base[p] + inside * f.intra_latency[p] + between * f.inter_latency +
         wire_seconds(f, c, s, f.intra_bandwidth[p], tree) + fill + adding;
}

// LL: the small buffer of an all_reduce goes through all steps whole; rings move half of their bandwidth in flags.
double ll_seconds(const Fabric& f, const Collective& c, const Shape& s) {
  const double inside = rounds(c.op) * (s.per_node - 1) * f.intra_latency[0];
  const double here = f.base[0] + inside + rounds(c.op) / 2 * c.bytes / f.intra_bandwidth[0];
  if (s.nodes == 1) return here;
  if (c.op == CollectiveOp::kAllReduce) {
    return here + 2 * std::log2(s.nodes) * (f.inter_latency + c.bytes / f.inter_bandwidth_ll);
  }
  return here + (s.nodes - 1) * kRingStep * f.inter_latency + c.bytes / (0.5 * s.nics * f.inter_bandwidth);
}

double pair_seconds(const Fabric& f, double bytes, bool across, double nics_each) {
  const double small = bytes < kLargeMessage ? f.send_intra : 1;
  const double link = f.intra_bandwidth[2] * small;
  const double rate = across ? std::min(link, f.inter_bandwidth * f.send * nics_each) : link;
  return f.base[2] + (across ? f.inter_latency : f.intra_latency[2]) + bytes / rate;
}

double all_to_all_seconds(const Fabric& f, const Collective& c, const Shape& s) {
  const double inside = c.bytes * (s.per_node - 1) / s.devices / f.intra_bandwidth[2];
  const double between =
      s.nodes > 1 ? c.bytes * (s.devices - s.per_node) / s.devices / (f.inter_bandwidth * f.pairs * s.nics / s.per_node)
                  : 0;
  const double peers = (s.per_node - 1) * f.intra_latency[2] + (s.devices - s.per_node) * f.inter_latency * kPeerStep;
  return f.base[2] + peers + std::max(inside, between);
}

// Share of the links or NICs that are there for it. What is sent between nodes also goes through links: these are wider
// and not counted.
double load(const Fabric& f, const Collective& c, const Shape& s, const CollectiveCost& cost) {
  if (cost.seconds <= 0) return 0;
  double bytes = c.bytes * bus_factor(c.op, s.devices), bandwidth = f.intra_bandwidth[2];
  if (cost.algorithm == Algorithm::kNvls) bandwidth = f.nvls_bandwidth;
  if (s.nodes > 1) {
    const bool pairs = cost.algorithm == Algorithm::kPairs;  // each device for itself
    bandwidth = f.inter_bandwidth * s.nics / (pairs ? s.per_node : 1);
    if (c.op == CollectiveOp::kAllToAll) bytes = c.bytes * (s.devices - s.per_node) / s.devices;
  }
  return std::min(1.0, bytes / cost.seconds / bandwidth);
}

double soft_minimum(double a, double b) { return std::pow(std::pow(a, -kSoft) + std::pow(b, -kSoft), -1 / kSoft); }

bool outside(const std::vector<double>& range, double value) {
  return !range.empty() && (value < range[0] || value > range[1]);
}

}  // namespace

const char* collective_name(CollectiveOp op) { return kNames[sized(op)]; }

CollectiveOp collective_from_name(const std::string& name) {
  std::string plain = name;
  if (plain.ends_with("_perf")) plain.resize(plain.size() - 5);
  if (plain == "alltoall") plain = "all_to_all";
  if (plain == "sendrecv") plain = "send_recv";
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (plain == kNames[i]) return static_cast<CollectiveOp>(i);
  }
  const std::vector<std::string> known(kNames.begin(), kNames.end());
  throw Error(fmt::format("op '{}' is not known", name), nearest_hint(plain, known, "ops"));
}

const char* algorithm_name(Algorithm algorithm) {
  constexpr std::array<const char*, 4> kAlgorithms = {"ring", "tree", "nvls", "pairs"};
  return kAlgorithms[sized(algorithm)];
}

const char* protocol_name(Protocol protocol) {
  constexpr std::array<const char*, 3> kProtocols = {"LL", "LL128", "Simple"};
  return kProtocols[sized(protocol)];
}

std::int64_t even_share(std::int64_t devices, std::int64_t smallest) {
  while (devices % smallest != 0) --smallest;
  return smallest;
}

CollectiveCost cost_of(const Cluster& cluster, const Collective& given) {
  const Shape s = shape_of(cluster, given);
  Collective c = given;
  c.per_node = static_cast<std::int64_t>(s.per_node);
  CollectiveCost cost;
  if (c.devices == 1) return cost;
  const Fabric& f = cluster.fabric;
  NcclChoice choice = nccl_choice(cluster, c, static_cast<std::int64_t>(s.nodes));
  if (uses_nvls(cluster, c) && choice.protocol != Protocol::kLL) choice = {Algorithm::kNvls, Protocol::kSimple};
  if (c.op == CollectiveOp::kSendRecv) {
    cost.seconds = pair_seconds(f, c.bytes, s.nodes > 1, s.nics / s.per_node);
  } else if (c.op == CollectiveOp::kAllToAll) {
    cost.seconds = all_to_all_seconds(f, c, s);
  } else if (choice.protocol == Protocol::kLL) {
    const double other = bulk_seconds(f, c, s, {choice.algorithm, Protocol::kLL128});
    cost.seconds = std::min(ll_seconds(f, c, s), choice.algorithm == Algorithm::kTree ? kWrongChoice * other : other);
  } else {
    cost.seconds = bulk_seconds(f, c, s, choice);
  }
  if (s.nodes == 1) {
    const double ll = ll_seconds(f, c, s);
    if (ll < cost.seconds && choice.algorithm != Algorithm::kPairs) choice.protocol = Protocol::kLL;
    cost.seconds = soft_minimum(cost.seconds, ll);
  }
  cost.seconds = std::max(cost.seconds, f.process * s.per_node);
  cost.algorithm = choice.algorithm;
  cost.protocol = choice.protocol;
  cost.channels = s.nodes == 1 ? f.channels : std::min(f.channels, static_cast<std::int64_t>(std::ceil(s.nics)));
  // What is sent is read and written once each, what is added is read once more.
  cost.memory_bytes = c.bytes * bus_factor(c.op, s.devices) * (adds(c.op) ? 2.5 : 2);
  cost.across = s.nodes > 1;
  cost.load = load(f, c, s, cost);
  cost.outside_fit = outside(f.origin.bytes, c.bytes) || outside(f.origin.devices, static_cast<double>(c.devices));
  return cost;
}

CollectiveCost send_cost(const Cluster& cluster, double bytes, bool across_nodes, std::int64_t sharing) {
  REEL_CHECK(bytes >= 0 && sharing >= 1);
  const Fabric& f = cluster.fabric;
  const double nics = std::min(1.0, static_cast<double>(f.nics) / static_cast<double>(sharing));
  CollectiveCost cost;
  cost.algorithm = Algorithm::kPairs;
  cost.seconds = pair_seconds(f, bytes, across_nodes, nics);
  cost.across = across_nodes;
  if (cost.seconds > 0)
    cost.load = std::min(1.0, bytes / cost.seconds / (across_nodes ? f.inter_bandwidth * nics : f.intra_bandwidth[2]));
  return cost;
}

}  // namespace reel::cost
