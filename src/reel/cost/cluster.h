// A cluster that can be simulated: what one device can do, how devices are wired, and how far each number is to be
// trusted. Read from TOML files, clusters/NAME.toml for those that come with reel.
//
// Units: seconds, bytes, bytes per second, floating-point operations per second (a multiply-add counts two). Bandwidths
// are of one direction.
//
// Each section of a file says where its numbers come from (Origin). A key that no reader knows is an Error with the
// nearest known one; every number is checked against its range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/files/settings.h"

namespace reel::cost {

enum class Basis { kMeasured, kPublished, kAssumed };  // from the best to the worst
const char* basis_name(Basis basis);                   // "measured", "published", "assumed"

// How far the numbers of a section can be trusted.
//
// measured: fitted to measurements of this very kind of cluster; published: taken from figures that somebody else
// measured on such a device; assumed: carried over from another device, or from a data sheet.
struct Origin {
  std::string basis = "assumed";
  std::string source;                // who measured it, in a few words
  std::vector<std::string> assumed;  // keys of the section that are assumed, whatever `basis` says of the others
  // Where the numbers were fitted or measured; outside of it they are an extrapolation. Empty: not said.
  std::vector<double> bytes;    // {least, most} of a collective's size
  std::vector<double> devices;  // {least, most}
  double error = 0;             // mean relative error on data that was not used to fit; 0: not known

  Basis kind() const;
};

enum class Precision { kBf16, kFp8 };

// How long matrix products take: operations / (peak x efficiency x quantisation x k / (k + k_half)) + launch.
struct GemmConstants {
  double peak_bf16 = 0, peak_fp8 = 0;              // of the data sheet, without structured sparsity; 0: cannot
  double efficiency_bf16 = 0, efficiency_fp8 = 0;  // of a large product
  double k_half = 0;                               // length of the inner dimension at which half the rate is reached
  std::int64_t tile_m = 0, tile_n = 0;             // of the output, done by one SM at a time
  Origin origin;
};

// Fused (flash) attention as a share of the bf16 peak, for long sequences with heads of 128 and of 64, and the length
// at which half of that is reached. Unfused attention is two batched products and softmax passes over memory.
struct AttentionConstants {
  bool fused = true;  // what jobs on this cluster use unless they say so: false where its published runs are older
  double forward_128 = 0, forward_64 = 0, backward_128 = 0, backward_64 = 0;
  double length_half = 0, causal_half = 0;  // queries
  double softmax_bytes = 0;  // unfused, forward: bytes moved for each score by scaling, mask, softmax and dropout
  // Over lists of keys: rate of very large groups as a share of the dense rate, the size of a group at which half of
  // that is reached, and the time of one SM for each group (its start, its first keys, its end).
  double sparse_forward = 0, sparse_backward = 0, sparse_group_half = 0;
  double sparse_group_forward = 0, sparse_group_backward = 0;
  double select_bytes = 0;  // choice of keys: bytes moved for each score of a sampled query with a key
  Origin origin;
};

struct MemoryConstants {
  double bytes = 0;            // of a device
  double bandwidth = 0;        // of the data sheet
  double efficiency = 0;       // reached by elementwise kernels
  double optimizer_bytes = 0;  // moved for each parameter by an Adam step with f32 master weights
  Origin origin;
};

struct Device {
  std::string name;
  std::string architecture = "ampere";  // ampere | hopper | blackwell: which of NCCL's tables apply
  std::int64_t sms = 0;
  Origin origin;      // of the times below
  double launch = 0;  // seconds a kernel takes at least, on a busy stream: its start and end
  double issue = 0;   // seconds that the host needs to issue one; 0: never the limit
  // Seconds that the host needs for an operation of an eager framework, of which kernels and their autograd are a part.
  // It counts where the host cannot run ahead: in mixtures of experts, whose sizes it has to wait for in each layer.
  double operation = 0;
  GemmConstants gemm;
  AttentionConstants attention;
  MemoryConstants memory;
};

// The wiring and what NCCL makes of it (collective.h says how the numbers are used). Lists are by protocol: LL, LL128,
// Simple.
struct Fabric {
  std::int64_t per_node = 8;   // devices
  std::int64_t nics = 8;       // of a node
  std::int64_t channels = 0;   // that NCCL opens; each occupies an SM
  double nvlink = 0, nic = 0;  // of the data sheet: all links of a device, one NIC; NCCL chooses by them
  double process = 0;          // seconds between the starts of the devices of a node, where one process drives them all
  std::vector<double> base = {0, 0, 0};                   // of every collective
  std::vector<double> intra_latency = {0, 0, 0};          // of a step between two devices of a node
  std::vector<double> intra_bandwidth = {1e9, 1e9, 1e9};  // that a device reaches inside a node
  double inter_latency = 0;                               // of a step between nodes
  double inter_bandwidth = 1e9;                           // that one NIC reaches
  double inter_bandwidth_ll = 1e9;                        // of a step between nodes by LL
  double reduce_bandwidth = 1e12;                         // of the pass that adds
  double nvls_bandwidth = 0;                              // bus bandwidth of a switch that adds, full node; 0: none
  double pairs = 1;                                       // all_to_all: share of inter_bandwidth that it reaches
  double send = 1, send_intra = 1;  // one device to one other: share of inter_bandwidth; of intra_bandwidth if < 256 MB
  Origin origin;
};

// How compute and communication slow each other down (overlap.h).
struct OverlapConstants {
  double gemm = 1, attention = 1, memory = 1;  // least slowdown of a class of kernels while a collective runs
  Origin origin;
};

struct Cluster {
  std::string name;
  std::string path;  // of the file
  Device device;
  Fabric fabric;
  OverlapConstants overlap;
  // Mean relative error of training steps on clusters of this kind, dense and with experts; 0: never compared. Then
  // `step_guess` is what to expect, from the nearest device that was compared. `step_source` says who measured, or
  // where.
  double step_error = 0, step_error_experts = 0, step_guess = 0;
  std::string step_source;

  std::int64_t nodes(std::int64_t devices) const { return (devices + fabric.per_node - 1) / fabric.per_node; }
};

void visit(Settings& settings, Cluster& cluster);

// Error where numbers contradict each other.
void check(const Cluster& cluster);

// `name`: a path (it has a slash or ends in .toml), or the name of a file in $REEL_CLUSTERS, in clusters/ below the
// current folder, or in clusters/ of the installation or the source tree that the running program belongs to. An Error
// names the nearest cluster there is.
Cluster load_cluster(const std::string& name);
Cluster parse_cluster(const std::string& text, const std::string& path);
std::vector<std::string> known_clusters();

}  // namespace reel::cost
