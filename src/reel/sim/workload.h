// What every rank of a job does, written so that a thousand ranks that do the same are written once.
//
// A rank runs a Program: blocks of tasks (the forward pass of a stage, its backward pass, the optimizer) in an order.
// Tasks are issued in that order, all at once; each waits on its stream for the task before it, and for the last tasks
// that were issued before it on the streams it names (as with CUDA events). Compute runs on kCompute. A collective that
// nothing hides is a task of kCompute, too; one that runs beside compute has a stream of its own.
//
// Communication is said by slot: "my tensor group", "the stage after me". Which ranks that means for a rank is in
// group_of; so ranks with the same program but other peers share it. All members of a group reach it through the same
// slot and stream. A channel is a group of two with a direction: the sender's slot and the receiver's differ.
//
// Times are integer picoseconds, so that no sum depends on its order and folded ranks (fold.h) equal unfolded ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reel/base/sized.h"

namespace reel::sim {

using Picoseconds = std::int64_t;
// At most 100,000 s, so that sums of some of them still fit; who simulates refuses what is anywhere near.
inline Picoseconds picoseconds(double seconds) { return std::llround(std::min(seconds, 1e5) * 1e12); }
inline double seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

enum class Stream : std::uint8_t {
  kCompute,
  kData,             // gradients and parameters of data parallelism
  kSendForward,      // pipeline: activations to the next stage
  kReceiveForward,   // and from the one before
  kSendBackward,     // gradients to the stage before
  kReceiveBackward,  // and from the next
  kRingSend,         // context parallelism: keys and values to the next rank
  kRingReceive,      // and from the one before
};
inline constexpr int kStreams = 8;
const char* stream_name(Stream stream);
constexpr std::uint8_t bit(Stream stream) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(stream)); }

// Where the time of a rank's compute stream is counted.
enum class Category : std::uint8_t {
  kCompute,
  kTensor,
  kContext,
  kExpert,
  kPipeline,
  kData,
  kBubble,  // waiting for other ranks
  kOptimizer,
};
inline constexpr int kCategories = 8;
const char* category_name(Category category);  // "compute", ...
Category stream_category(Stream stream);       // of what runs on it; kCompute for the compute stream
using Breakdown = std::array<Picoseconds, kCategories>;

enum class Kind : std::uint8_t { kCompute, kCollective, kSend, kReceive };

struct Task {
  Kind kind = Kind::kCompute;
  Stream stream = Stream::kCompute;
  Category category = Category::kCompute;
  std::uint8_t kernel = 0;  // cost::KernelClass: how it suffers from communication beside it
  std::uint8_t waits = 0;   // bits of streams: what was issued on them before has ended
  // ... and on one stream all but the last `lag` tasks that were issued before have ended; none where lag is 0
  Stream lag_stream = Stream::kCompute;
  std::int32_t lag = 0;
  std::int32_t layer = -1;
  std::int32_t name = 0;     // Workload::names
  std::int32_t call = -1;    // Workload::calls; -1: compute
  Picoseconds duration = 0;  // compute, alone on the device
};

struct Block {
  std::vector<Task> tasks;
  std::int32_t name = 0;
  double keeps = 0;  // bytes of memory held from here on; negative: released
  double needs = 0;  // bytes held at most inside, on top of what is held before
};

struct Step {
  std::int32_t block = 0;
  std::int32_t micro_batch = -1;  // -1: of none
};

struct Program {
  std::vector<Block> blocks;
  std::vector<Step> order;
  double static_bytes = 0;  // weights, gradients, optimizer
};

// What the bytes of a call go through. Both directions are there at the same time.
enum class Link : std::uint8_t { kNone, kNode, kNetwork };
constexpr std::uint8_t bit(Link link) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(link)); }

// One way of placing a group on nodes (and one condition of its links): calls take the same time for all groups of one
// variant. Slowdown of compute beside the call, in thousandths, by kernel class.
struct CallCost {
  Picoseconds duration = 0;  // with its link to itself
  std::array<std::int32_t, 3> slowdown = {1000, 1000, 1000};
  Link link = Link::kNone;
  std::int32_t load = 0;  // thousandths of the link that it takes while it runs
};

struct Call {
  std::int32_t slot = 0;
  double bytes = 0;
  std::vector<CallCost> costs;  // by variant of the slot
};

struct Group {
  std::int32_t variant = 0;
  std::int32_t first = 0, count = 0;  // into Workload::members
  bool channel = false;               // members are the sender and the receiver
};

struct Workload {
  std::vector<std::string> names;
  std::vector<Call> calls;
  std::vector<Program> programs;
  std::vector<std::int32_t> program_of;  // [ranks]
  std::vector<double> slow;              // [ranks], factor on compute; empty: all 1
  std::int32_t slots = 0;
  std::vector<std::int32_t> group_of;  // [ranks][slots]; -1: none
  std::vector<Group> groups;
  std::vector<std::int32_t> members;

  std::int32_t ranks() const { return static_cast<std::int32_t>(program_of.size()); }
  std::int32_t group(std::int32_t rank, std::int32_t slot) const {
    return group_of[sized(rank) * sized(slots) + sized(slot)];
  }
};

}  // namespace reel::sim
