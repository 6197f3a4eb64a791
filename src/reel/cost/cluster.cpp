#include "reel/cost/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/files/nearest.h"
#include "reel/files/shipped.h"
#include "reel/files/toml.h"

namespace reel::cost {

namespace {

namespace fs = std::filesystem;

constexpr double kMost = 1e18;

void visit_origin(Settings& s, const std::string& section, Origin& origin, bool ranges) {
  s.choice(section + ".basis", origin.basis, {"measured", "published", "assumed"}, "where the numbers come from");
  s.string(section + ".source", origin.source, "who measured them");
  if (s.toml() != nullptr) origin.assumed = s.toml()->strings(section + ".assumed", origin.assumed);
  s.number(section + ".error", origin.error, 0, 10, "mean relative error on data that was not used to fit; 0: unknown");
  if (!ranges) return;
  s.numbers(section + ".fitted_bytes", origin.bytes, 0, "least and most bytes of the calls it was fitted on");
  s.numbers(section + ".fitted_devices", origin.devices, 0, "least and most devices of the calls it was fitted on");
}

void visit_device(Settings& s, Device& d) {
  s.section("device", "one device");
  s.string("device.name", d.name, "as its maker calls it");
  s.choice("device.architecture", d.architecture, {"ampere", "hopper", "blackwell"}, "which of NCCL's tables apply");
  s.integer("device.sms", d.sms, 1, 1 << 16, "streaming multiprocessors");
  s.number("device.launch", d.launch, 0, 1, "seconds that a kernel takes at least");
  s.number("device.issue", d.issue, 0, 1, "seconds that the host needs to issue a kernel; 0: never the limit");
  s.number("device.operation", d.operation, 0, 1, "seconds of the host for an operation, where it cannot run ahead");
  visit_origin(s, "device", d.origin, false);
  s.section("gemm", "matrix products");
  GemmConstants& g = d.gemm;
  s.number("gemm.peak_bf16", g.peak_bf16, 0, kMost, "flop/s of the data sheet, dense");
  s.number("gemm.peak_fp8", g.peak_fp8, 0, kMost, "flop/s of the data sheet, dense; 0: the device has no fp8");
  s.number("gemm.efficiency_bf16", g.efficiency_bf16, 0, 1, "share of the peak that a large product reaches");
  s.number("gemm.efficiency_fp8", g.efficiency_fp8, 0, 1, "the same in fp8");
  s.number("gemm.k_half", g.k_half, 0, kMost, "inner dimension at which half of the rate is reached");
  s.integer("gemm.tile_m", g.tile_m, 1, 1 << 16, "rows of the output that one SM does at a time");
  s.integer("gemm.tile_n", g.tile_n, 1, 1 << 16, "columns of it");
  visit_origin(s, "gemm", g.origin, false);
  s.section("attention", "fused attention; shares are of the bf16 peak");
  AttentionConstants& a = d.attention;
  s.boolean("attention.fused", a.fused, "what jobs use that do not say it; false: scores go through memory");
  s.number("attention.forward_128", a.forward_128, 0, 1, "share reached with heads of 128 and long sequences");
  s.number("attention.forward_64", a.forward_64, 0, 1, "the same with heads of 64");
  s.number("attention.backward_128", a.backward_128, 0, 1, "the same, backward");
  s.number("attention.backward_64", a.backward_64, 0, 1, "the same, backward with heads of 64");
  s.number("attention.length_half", a.length_half, 0, kMost, "queries at which half of it is reached");
  s.number("attention.causal_half", a.causal_half, 0, kMost, "the same with a causal mask");
  s.number("attention.softmax_bytes", a.softmax_bytes, 0, kMost, "unfused: bytes for each score, forward");
  s.number("attention.sparse_forward", a.sparse_forward, 0, 1, "lists of keys: share of the dense rate, large groups");
  s.number("attention.sparse_backward", a.sparse_backward, 0, 1, "the same, backward");
  s.number("attention.sparse_group_half", a.sparse_group_half, 0, kMost, "queries of a group at which half is reached");
  s.number("attention.sparse_group_forward", a.sparse_group_forward, 0, 1, "seconds of one SM for each group");
  s.number("attention.sparse_group_backward", a.sparse_group_backward, 0, 1, "the same, backward");
  s.number("attention.select_bytes", a.select_bytes, 0, kMost, "bytes for each score in the choice of keys");
  visit_origin(s, "attention", a.origin, false);
  s.section("memory", "memory of a device");
  MemoryConstants& m = d.memory;
  s.number("memory.bytes", m.bytes, 1, kMost, "bytes");
  s.number("memory.bandwidth", m.bandwidth, 1, kMost, "bytes per second of the data sheet");
  s.number("memory.efficiency", m.efficiency, 0, 1, "share of it that elementwise kernels reach");
  s.number("memory.optimizer_bytes", m.optimizer_bytes, 0, kMost, "bytes for each parameter in a step of Adam");
  visit_origin(s, "memory", m.origin, false);
}

void visit_fabric(Settings& s, Fabric& f) {
  s.section("fabric", "links between devices; lists are by protocol: LL, LL128, Simple");
  s.integer("fabric.per_node", f.per_node, 1, 1 << 16, "devices of a node");
  s.integer("fabric.nics", f.nics, 1, 1 << 16, "network cards of a node");
  s.integer("fabric.channels", f.channels, 1, 1 << 10, "that NCCL opens, each on an SM");
  s.number("fabric.nvlink", f.nvlink, 1, kMost, "bytes per second and direction of all links of a device, nominal");
  s.number("fabric.nic", f.nic, 1, kMost, "bytes per second of a network card, nominal");
  s.number("fabric.process", f.process, 0, 1, "seconds between the starts of devices that one process drives");
  s.numbers("fabric.base", f.base, 3, "seconds of every collective");
  s.numbers("fabric.intra_latency", f.intra_latency, 3, "seconds of a step inside a node");
  s.numbers("fabric.intra_bandwidth", f.intra_bandwidth, 3, "bytes per second of a device inside a node");
  s.number("fabric.inter_latency", f.inter_latency, 0, 1, "seconds of a step between nodes");
  s.number("fabric.inter_bandwidth", f.inter_bandwidth, 1, kMost, "bytes per second that one network card reaches");
  s.number("fabric.inter_bandwidth_ll", f.inter_bandwidth_ll, 1, kMost, "bytes per second of a step by LL");
  s.number("fabric.reduce_bandwidth", f.reduce_bandwidth, 1, kMost, "bytes per second of the pass that adds");
  s.number("fabric.nvls_bandwidth", f.nvls_bandwidth, 0, kMost,
           "bus bandwidth of a switch that adds; 0: there is none");
  s.number("fabric.pairs", f.pairs, 0.01, 1, "all_to_all: share of inter_bandwidth");
  s.number("fabric.send", f.send, 0.01, 1, "one device to another: share of inter_bandwidth");
  s.number("fabric.send_intra", f.send_intra, 0.01, 1, "below 256 MB inside a node: share of intra_bandwidth");
  visit_origin(s, "fabric", f.origin, true);
}

// Folders that may hold NAME.toml, the first that does counts.
std::vector<fs::path> folders() {
  std::vector<fs::path> all = shipped_folders("clusters");
  if (const char* own = std::getenv("REEL_CLUSTERS"); own != nullptr && *own != '\0') all.emplace(all.begin(), own);
  return all;
}

bool is_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".toml"); }

}  // namespace

const char* basis_name(Basis basis) {
  constexpr const char* kNames[] = {"measured", "published", "assumed"};
  return kNames[static_cast<int>(basis)];
}

Basis Origin::kind() const {
  return basis == "measured" ? Basis::kMeasured : basis == "published" ? Basis::kPublished : Basis::kAssumed;
}

void visit(Settings& s, Cluster& cluster) {
  visit_device(s, cluster.device);
  visit_fabric(s, cluster.fabric);
  s.section("overlap", "compute beside communication");
  s.number("overlap.gemm", cluster.overlap.gemm, 1, 100, "least slowdown of matrix products beside a collective");
  s.number("overlap.attention", cluster.overlap.attention, 1, 100, "of attention");
  s.number("overlap.memory", cluster.overlap.memory, 1, 100, "of kernels bound by memory");
  visit_origin(s, "overlap", cluster.overlap.origin, false);
  s.section("step", "training steps");
  s.number("step.error", cluster.step_error, 0, 10, "mean relative error on published steps; 0: never compared");
  s.number("step.error_experts", cluster.step_error_experts, 0, 10, "the same for mixtures of experts");
  s.number("step.guess", cluster.step_guess, 0, 10, "error to expect where nothing was compared");
  s.string("step.source", cluster.step_source, "who measured the steps, or where the guess is from");
}

void check(const Cluster& cluster) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw Error(fmt::format("{}: {}", cluster.path, what), hint);
  };
  const Device& d = cluster.device;
  if (d.sms == 0)
    refuse("device.sms is missing", "a cluster file needs [device], [gemm], [attention], [memory], [fabric]");
  if (d.gemm.peak_bf16 <= 0 || d.gemm.efficiency_bf16 <= 0) {
    refuse("gemm.peak_bf16 and gemm.efficiency_bf16 must be there and above 0",
           "flop/s of the data sheet, and a share");
  }
  if (d.gemm.peak_fp8 > 0 && d.gemm.efficiency_fp8 <= 0) {
    refuse("gemm.efficiency_fp8 is missing", "a device with gemm.peak_fp8 needs the share that is reached");
  }
  if (d.gemm.tile_m < 1 || d.gemm.tile_n < 1) refuse("gemm.tile_m and gemm.tile_n are missing", "for instance 128");
  if (d.memory.bytes <= 0 || d.memory.bandwidth <= 0 || d.memory.efficiency <= 0) {
    refuse("memory.bytes, memory.bandwidth and memory.efficiency must be there and above 0", "bytes, bytes per second");
  }
  for (const double share : {d.attention.forward_128, d.attention.forward_64, d.attention.backward_128,
                             d.attention.backward_64, d.attention.sparse_forward, d.attention.sparse_backward}) {
    if (share <= 0)
      refuse("a rate of [attention] is missing or 0", "shares between 0 and 1: see clusters/a100-selene.toml");
  }
  if (cluster.fabric.nvlink <= 0 || cluster.fabric.nic <= 0) {
    refuse("fabric.nvlink and fabric.nic must be there and above 0", "bytes per second of the data sheet");
  }
  const Fabric& f = cluster.fabric;
  if (f.channels < 1) refuse("fabric.channels is missing", "for instance 16");
  for (const std::vector<double>* list : {&f.base, &f.intra_latency, &f.intra_bandwidth}) {
    for (const double value : *list) {
      if (!(value >= 0) || value > kMost || (list == &f.intra_bandwidth && value < 1)) {
        refuse(fmt::format("{} in a list of [fabric]", value), "seconds from 0 on, bandwidths in bytes per second");
      }
    }
  }
  for (const std::vector<double>* range : {&f.origin.bytes, &f.origin.devices}) {
    if (!range->empty() && (range->size() != 2 || (*range)[0] > (*range)[1])) {
      refuse("fabric.fitted_bytes and fabric.fitted_devices are [least, most]", "two numbers, the smaller first");
    }
  }
}

Cluster parse_cluster(const std::string& text, const std::string& path) {
  const Toml toml = Toml::parse(text, path);
  Cluster cluster;
  cluster.name = fs::path(path).stem().string();
  cluster.path = path;
  Settings settings(toml);
  visit(settings, cluster);
  toml.check_all_used();
  check(cluster);
  return cluster;
}

std::vector<std::string> known_clusters() {
  std::vector<std::string> names;
  for (const fs::path& folder : folders()) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Cluster load_cluster(const std::string& name) {
  if (is_path(name)) return parse_cluster(read_file(name), name);
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / (name + ".toml");
    std::error_code none;
    if (fs::exists(path, none)) return parse_cluster(read_file(path.string()), path.string());
  }
  const std::vector<std::string> known = known_clusters();
  throw Error(
      fmt::format("there is no cluster '{}'", name),
      known.empty() ? "no clusters/ folder was found: give the path of a file" : nearest_hint(name, known, "clusters"));
}

}  // namespace reel::cost
