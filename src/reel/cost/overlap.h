// How much compute slows down while a collective runs on the same device.
//
// An explicit contention model: the collective holds one SM for each of its channels and moves bytes through the
// device's memory. What a kernel uses of either when it runs alone, it has to get from what is left. A kernel that
// leaves enough free does not slow down.
//
// How good that is: next to an all-reduce of 25 MB on eight A100 a product takes 1.22 times as long and a sum 1.21
// times, where Echo (arXiv 2412.12487) measured 1.27 and 1.51. Of the 404 overlapped kernels in Echo's published table
// the model slows 4, so that it is no better there than to predict no slowdown; nor is anything that was learnt, on
// kernels that it has not seen (docs/validation.md).
//
// Where a table of kernels measured alone and overlapped is given (kernels.h), the median of the kernel's class in it
// is taken instead. A constant of the cluster's file above 1 is the least.
#pragma once

#include "reel/cost/cluster.h"
#include "reel/cost/collective.h"
#include "reel/cost/device.h"

namespace reel::cost {

class OverlapTable;  // kernels.h

// Shares of a device, 0 to 1: what a kernel uses while it runs alone, or what a collective takes.
struct Load {
  double sms = 0;
  double memory = 0;
};

Load typical_load(KernelClass kind);
Load load_of(const Cluster& cluster, const CollectiveCost& collective);

// Factor of at least 1 on the time of a kernel that uses `kernel` alone, beside something that takes `taken`.
double contention(const Load& kernel, const Load& taken);

// The same for a kernel of a class beside a collective; the collective's own time is not changed.
double slowdown(const Cluster& cluster, KernelClass kind, const CollectiveCost& collective,
                const OverlapTable* measured = nullptr);

}  // namespace reel::cost
