#include "reel/cost/device.h"

#include <algorithm>
#include <cmath>

#include "reel/base/error.h"
#include "reel/cost/kernels.h"

namespace reel::cost {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

const char* pass_name(Direction pass) { return pass == Direction::kForward ? "forward" : "backward"; }

// Flash attention's backward pass computes five products where forward has two.
double products(Direction pass) { return pass == Direction::kForward ? 4 : 10; }

// Queries that one SM of a flash kernel does at a time.
constexpr std::int64_t kQueryTile = 128;

constexpr double kBf16Bytes = 2;

}  // namespace

std::string kernel_name(const Gemm& g) {
  std::string name = fmt::format("gemm {}x{}x{} {}", g.m, g.n, g.k, g.precision == Precision::kFp8 ? "fp8" : "bf16");
  if (g.batch != 1) name += fmt::format(" batch={}", g.batch);
  return name;
}

std::string kernel_name(const Attention& a, Direction pass) {
  return fmt::format("attention {} {}x{}x{}x{} {}{}", pass_name(pass), a.batch * a.heads, a.queries, a.keys, a.head_dim,
                     a.flash ? "flash" : "unfused", a.causal ? " causal" : "");
}

std::string kernel_name(const SparseAttention& a, Direction pass) {
  return fmt::format("sparse {} {}x{}x{}x{} group={} sparsity={}", pass_name(pass), a.batch * a.heads, a.queries,
                     a.keys, a.head_dim, a.group, a.sparsity);
}

double DeviceCost::quantisation(const Gemm& g) const {
  const GemmConstants& c = device_->gemm;
  const std::int64_t rows =
      g.ragged ? ceil_div(g.batch * (2 * g.m + c.tile_m), 2 * c.tile_m) : ceil_div(g.m, c.tile_m) * g.batch;
  const std::int64_t tiles = rows * ceil_div(g.n, c.tile_n);
  const std::int64_t slots = ceil_div(tiles, device_->sms) * device_->sms;
  return real(g.m) * real(g.n) * real(g.batch) / (real(slots) * real(c.tile_m) * real(c.tile_n));
}

double DeviceCost::seconds(const Gemm& g) const {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return 0;
  if (measured_ != nullptr) {
    if (const auto measured = measured_->find(kernel_name(g))) return *measured;
  }
  const GemmConstants& c = device_->gemm;
  const bool fp8 = g.precision == Precision::kFp8;
  if (fp8 && c.peak_fp8 <= 0) {
    throw Error(fmt::format("{} has no fp8", device_->name), "use memory.precision = \"bf16\", or another cluster");
  }
  const double peak = fp8 ? c.peak_fp8 * c.efficiency_fp8 : c.peak_bf16 * c.efficiency_bf16;
  const double flops = 2 * real(g.m) * real(g.n) * real(g.k) * real(g.batch);
  const double compute = flops / (peak * quantisation(g) * real(g.k) / (real(g.k) + c.k_half));
  const double operand = fp8 ? 1 : kBf16Bytes;
  const double bytes =
      real(g.batch) * (operand * real(g.k) * (real(g.m) + real(g.n)) + kBf16Bytes * real(g.m) * real(g.n));
  const double memory = bytes / (device_->memory.bandwidth * device_->memory.efficiency);
  return std::max(compute, memory) + device_->launch;
}

double DeviceCost::dense_rate(double head_dim, Direction pass) const {
  const AttentionConstants& c = device_->attention;
  const double at_128 = pass == Direction::kForward ? c.forward_128 : c.backward_128;
  const double at_64 = pass == Direction::kForward ? c.forward_64 : c.backward_64;
  // Between the two published head sizes along the logarithm, level above, and in proportion below: a head of 32 has
  // half of the products for the same softmax.
  const double share = head_dim >= 128  ? at_128
                       : head_dim >= 64 ? at_64 + (at_128 - at_64) * std::log2(head_dim / 64)
                                        : at_64 * head_dim / 64;
  return device_->gemm.peak_bf16 * share;
}

double DeviceCost::seconds(const Attention& a, Direction pass) const {
  if (a.batch <= 0 || a.heads <= 0 || a.queries <= 0 || a.keys <= 0 || a.head_dim <= 0) return 0;
  if (measured_ != nullptr) {
    if (const auto measured = measured_->find(kernel_name(a, pass))) return *measured;
  }
  if (!a.flash) return unfused_seconds(a, pass);
  const AttentionConstants& c = device_->attention;
  const double pairs = real(a.batch) * real(a.heads) * real(a.queries) * real(a.keys) * (a.causal ? 0.5 : 1);
  const double length = real(std::min(a.queries, a.keys));
  const double half = a.causal ? c.causal_half : c.length_half;
  const std::int64_t blocks = ceil_div(a.queries, kQueryTile) * a.batch * a.heads;
  const double busy = std::min(1.0, real(blocks) / real(device_->sms));
  const double rate = dense_rate(real(a.head_dim), pass) * busy * length / (length + half);
  const double compute = products(pass) * pairs * real(a.head_dim) / rate;
  const std::int64_t kv_heads = a.kv_heads > 0 ? a.kv_heads : a.heads;
  const double once = 2 * kBf16Bytes * real(a.batch) * real(a.head_dim) *
                      (real(a.heads) * real(a.queries) + real(kv_heads) * real(a.keys));
  const double bytes = (pass == Direction::kForward ? 1 : 2) * once;
  const double memory = bytes / (device_->memory.bandwidth * device_->memory.efficiency);
  return std::max(compute, memory) + device_->launch;
}

// Two batched products (four backward), and passes of softmax over the scores between them.
double DeviceCost::unfused_seconds(const Attention& a, Direction pass) const {
  const std::int64_t batch = a.batch * a.heads;
  const Gemm scores{a.queries, a.keys, a.head_dim, batch}, mix{a.queries, a.head_dim, a.keys, batch};
  const double once = seconds(scores) + seconds(mix);
  const double bytes = device_->attention.softmax_bytes * real(batch) * real(a.queries) * real(a.keys);
  return (pass == Direction::kForward ? 1 : 2) * once + memory_seconds(bytes);
}

double DeviceCost::seconds(const SparseAttention& a, Direction pass) const {
  if (a.batch <= 0 || a.heads <= 0 || a.queries <= 0 || a.keys <= 0 || a.head_dim <= 0) return 0;
  if (measured_ != nullptr) {
    if (const auto measured = measured_->find(kernel_name(a, pass))) return *measured;
  }
  REEL_CHECK(a.group > 0 && a.sparsity >= 0 && a.sparsity <= 1);
  const AttentionConstants& c = device_->attention;
  const bool forward = pass == Direction::kForward;
  const double heads = real(a.batch) * real(a.heads);
  const double pairs = heads * real(a.queries) * real(a.keys) * (1 - a.sparsity);
  const double share =
      (forward ? c.sparse_forward : c.sparse_backward) * real(a.group) / (real(a.group) + c.sparse_group_half);
  const double compute = products(pass) * pairs * real(a.head_dim) / (dense_rate(real(a.head_dim), pass) * share);
  const double groups = heads * real(ceil_div(a.queries, a.group));
  const double starts = groups * (forward ? c.sparse_group_forward : c.sparse_group_backward) / real(device_->sms);
  return compute + starts + device_->launch;
}

double DeviceCost::seconds(const Selection& s) const {
  constexpr double kPublishedRank = 16;  // of the kernel that select_bytes was taken from
  const double scores =
      real(s.batch) * real(s.heads) * real(ceil_div(s.queries, s.group)) * real(s.samples) * real(s.keys);
  return memory_seconds(scores * device_->attention.select_bytes * real(s.rank) / kPublishedRank);
}

double DeviceCost::memory_seconds(double bytes) const {
  if (bytes <= 0) return 0;
  return bytes / (device_->memory.bandwidth * device_->memory.efficiency) + device_->launch;
}

double DeviceCost::optimizer_seconds(double parameters) const {
  return memory_seconds(parameters * device_->memory.optimizer_bytes);
}

}  // namespace reel::cost
