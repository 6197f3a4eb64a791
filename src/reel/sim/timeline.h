// When everything happens: discrete events over a workload.
//
// A collective starts when its last member arrives and ends for all members at once; a send waits for its receive, and
// both end when the bytes are there; streams run in order. Compute that runs while a collective of its rank runs beside
// it (on kData) advances more slowly, by the call's slowdown for its kernel class, exactly for as long as both run.
//
// Calls of one rank that run at the same time share its links: the links inside a node and the network each carry, in
// each direction, as much as they can. While the loads of a rank's calls on one of them sum to more than 1, all of
// these calls take longer by that sum; a call advances at the pace of its slowest member. A collective loads both
// directions, a message the sender's way out and the receiver's way in. (Calls of different ranks that share a NIC are
// priced so: layout.h.)
//
// Where ranks are folded, a block that runs on the compute stream alone, whose collectives have members of its own
// class only, and beside which no collective can run, nor a message through the links that it uses, is one task:
// nothing outside can happen within it, so its length is the sum of its tasks. Blocks of that kind in a row
// (micro-batches without a pipeline) are one task as well.
#pragma once

#include <vector>

#include "reel/sim/fold.h"
#include "reel/sim/workload.h"

namespace reel::sim {

struct ClassTime {
  Picoseconds end = 0;     // of the compute stream
  Breakdown breakdown{};   // sums to `end`
  Picoseconds beside = 0;  // compute that ran beside communication
  Picoseconds lost = 0;    // what it took longer for that
};

struct Span {
  std::int32_t of = 0;  // class
  Stream stream = Stream::kCompute;
  std::int32_t block = 0, task = 0;  // of the class's program
  std::int32_t micro_batch = -1;
  Picoseconds arrived = 0, start = 0, end = 0;
};

struct Timeline {
  Picoseconds end = 0;
  std::int32_t critical = 0;  // class that ends last, the first of equals
  std::vector<ClassTime> classes;
  std::vector<Span> spans;  // by end; only where asked for, and then no blocks are merged
  std::int64_t tasks = 0;   // that were run
};

// An Error names the tasks that wait for each other where the workload cannot proceed.
Timeline run(const Workload& workload, const Folding& folding, bool spans = false);

}  // namespace reel::sim
