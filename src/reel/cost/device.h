// How long one device takes for one kernel, alone on the device.
//
// Rates are bounded by arithmetic and by memory: a kernel takes the longer of the two, and Device::launch on top. All
// times are in seconds; sizes are those of the work of one device (already divided over ranks). A measured time for
// the same kernel (kernels.h), where there is one, replaces the model's. Work of size 0 takes no time.
#pragma once

#include <cstdint>
#include <string>

#include "reel/cost/cluster.h"

namespace reel::cost {

class KernelTable;  // kernels.h

// out[m][n] += a[m][k] b[k][n], `batch` times (attention without fusion, experts).
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  Precision precision = Precision::kBf16;
  bool ragged = false;  // m is the mean of a batch whose rows differ: half a tile more for each, on average
};

enum class Direction { kForward, kBackward };

// Attention of `queries` to `keys` tokens. Grouped-query attention computes as much as with all its heads and reads
// less.
struct Attention {
  std::int64_t batch = 1, heads = 0, kv_heads = 0;  // kv_heads 0: as heads
  std::int64_t queries = 0, keys = 0, head_dim = 0;
  bool causal = false;  // half of the pairs are skipped; unfused attention computes them all
  bool flash = true;    // false: scores are written to memory, as before 2022
};

// Attention over lists of keys that groups of queries share (lists/key_lists.h).
struct SparseAttention {
  std::int64_t batch = 1, heads = 0;
  std::int64_t queries = 0, keys = 0, head_dim = 0;
  std::int64_t group = 64;  // queries that share a list
  double sparsity = 0;      // share of the keys left out, 0 to 1, mean over heads
};

// The choice of those keys: low-rank scores of `samples` queries of a group with all keys, and their largest.
struct Selection {
  std::int64_t batch = 1, heads = 0;
  std::int64_t queries = 0, keys = 0, group = 64, samples = 1, rank = 16;
};

// Which kind a kernel is of: for overlap (overlap.h) and for reports.
enum class KernelClass { kGemm, kAttention, kMemory };

// Names under which a measured time may replace the model's:
//   gemm 4096x1024x1024 bf16                      m x n x k; " batch=16" follows where it is not 1
//   attention forward 16x4096x4096x128 flash      batch*heads x queries x keys x head_dim; or "unfused"; then " causal"
//   sparse backward 16x65536x65536x128 group=64 sparsity=0.9
std::string kernel_name(const Gemm& gemm);
std::string kernel_name(const Attention& attention, Direction pass);
std::string kernel_name(const SparseAttention& attention, Direction pass);

class DeviceCost {
 public:
  // Both are kept by reference; `measured` may be null.
  explicit DeviceCost(const Device& device, const KernelTable* measured = nullptr)
      : device_(&device), measured_(measured) {}

  double seconds(const Gemm& gemm) const;  // Error: fp8 on a device without it
  double seconds(const Attention& attention, Direction pass) const;
  double seconds(const SparseAttention& attention, Direction pass) const;
  double seconds(const Selection& selection) const;
  double memory_seconds(double bytes) const;          // read and written, by one kernel
  double optimizer_seconds(double parameters) const;  // Adam on the parameters that this device updates
  double launch_seconds() const { return device_->launch; }

  // Share of the time in which all SMs have a tile of the output to compute: 1 where tiles and waves come out even.
  double quantisation(const Gemm& gemm) const;

  const Device& device() const { return *device_; }

 private:
  double dense_rate(double head_dim, Direction pass) const;  // flop/s of fused attention, long sequences
  double unfused_seconds(const Attention& attention, Direction pass) const;

  const Device* device_;
  const KernelTable* measured_;
};

}  // namespace reel::cost
