#include "reel/cost/overlap.h"

#include <algorithm>

#include "reel/cost/kernels.h"

namespace reel::cost {

Load typical_load(KernelClass kind) {
  // Shares of the peak throughputs that profilers show for kernels of these classes in transformers (medians of Echo's
  // published table: sgemm 0.95 and 0.04, layer norm and elementwise 0.1-0.4 and 0.65-0.9).
  switch (kind) {
    case KernelClass::kGemm:
      return {0.95, 0.3};
    case KernelClass::kAttention:
      return {0.9, 0.2};
    default:
      return {0.3, 0.9};
  }
}

Load load_of(const Cluster& cluster, const CollectiveCost& collective) {
  if (collective.seconds <= 0) return {};
  return {static_cast<double>(collective.channels) / static_cast<double>(cluster.device.sms),
          collective.memory_bytes / collective.seconds / cluster.device.memory.bandwidth};
}

double contention(const Load& kernel, const Load& taken) {
  constexpr double kLeast = 0.05;  // something is always left: the scheduler is fair among what is resident
  return std::max(
      {1.0, kernel.sms / std::max(kLeast, 1 - taken.sms), kernel.memory / std::max(kLeast, 1 - taken.memory)});
}

double slowdown(const Cluster& cluster, KernelClass kind, const CollectiveCost& collective,
                const OverlapTable* measured) {
  if (measured != nullptr) {
    if (const auto factor = measured->slowdown(kind)) return *factor;
  }
  const OverlapConstants& c = cluster.overlap;
  const double least = kind == KernelClass::kGemm ? c.gemm : kind == KernelClass::kAttention ? c.attention : c.memory;
  return std::max(least, contention(typical_load(kind), load_of(cluster, collective)));
}

}  // namespace reel::cost
