// Fits the few scalars of a fabric to measured collectives.
//
// The scalars are those of Fabric that nccl-tests can tell: base, latencies and bandwidths. Relative errors are made
// small in the least-squares sense, with a pull towards the values that the cluster had (a factor of e away weighs
// as much as one call that is 5 % off): what the calls say little about stays where it was, so that few calls are
// enough. Calls below 1 MB count half. The result does not depend on the order of the calls beyond rounding.
#pragma once

#include <string>
#include <vector>

#include "reel/cost/cluster.h"
#include "reel/cost/measured.h"

namespace reel::cost {

struct Fit {
  Cluster cluster;                  // with the fitted scalars; its origin says measured, and where
  double before = 0, after = 0;     // mean relative error on the calls
  double left_out = 0;              // mean over device counts, each predicted by a fit on the others; 0: only one count
  std::vector<std::string> fitted;  // keys that moved: "fabric.base[0]"
  std::vector<std::string> kept;    // keys of which the calls say nothing
};

// An Error without calls.
Fit calibrate(const Cluster& cluster, const std::vector<MeasuredCall>& calls);

// Without the check on left out counts.
Cluster fit_fabric(const Cluster& cluster, const std::vector<MeasuredCall>& calls);

double mean_error(const Cluster& cluster, const std::vector<MeasuredCall>& calls);

// The text of the cluster's file with the fabric's values of `cluster` in their places; comments stay.
std::string with_fabric(const std::string& text, const Cluster& cluster);

}  // namespace reel::cost
