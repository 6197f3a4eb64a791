// What builders of workloads share: names, prices of kernels and calls, and lists of tasks in the making.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "reel/cost/cluster.h"
#include "reel/cost/collective.h"
#include "reel/cost/device.h"
#include "reel/cost/overlap.h"
#include "reel/sim/job.h"
#include "reel/sim/placement.h"
#include "reel/sim/workload.h"

namespace reel::sim {

// Tables of the user's own that replace parts of the model; null: none.
struct Measured {
  const cost::KernelTable* kernels = nullptr;
  const cost::OverlapTable* overlap = nullptr;
};

inline constexpr std::string_view kHostWait = "wait for the host";

class Builder {
 public:
  Builder(const Job& job, const cost::Cluster& cluster, const Measured& measured, Workload& workload);

  const Job& job;
  const cost::Cluster& cluster;
  cost::DeviceCost device;
  Placement layout;
  Workload& workload;

  std::int32_t name(std::string_view text);

  // A call of a slot, priced for each placement of its groups. `hidden` seconds of it run behind compute that stands
  // beside it in the compute stream. A slot without groups is of one device: no call, -1.
  std::int32_t call(Slot slot, cost::CollectiveOp op, double bytes, double hidden = 0);
  // How much longer a kernel of this class takes that hides up to `seconds` of the call
  double hiding_seconds(Slot slot, cost::CollectiveOp op, double bytes, double seconds, cost::KernelClass kind);

  std::int64_t extrapolated() const {
    return extrapolated_;
  }  // calls beyond what the fabric's constants were fitted on
  std::int64_t priced() const { return priced_; }

 private:
  cost::CollectiveCost price(const Spread& placement, cost::CollectiveOp op, double bytes);

  const Measured measured_;
  std::unordered_map<std::string, std::int32_t> names_;
  std::map<std::tuple<int, int, double, double>, std::int32_t> calls_;
  std::int64_t extrapolated_ = 0, priced_ = 0;
};

// A list of tasks that run one after the other on the compute stream, and what may run beside them.
class Tasks {
 public:
  Tasks(Builder& builder, int layer) : b_(builder), layer_(layer) {}

  void kernel(std::string_view name, double seconds, cost::KernelClass kind, Category category = Category::kCompute);
  void memory(std::string_view name, double bytes) {
    kernel(name, b_.device.memory_seconds(bytes), cost::KernelClass::kMemory);
  }
  double gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, double longer = 0,
              bool narrow = true);  // narrow: in the job's precision, else bf16
  double gemm_seconds(std::int64_t m, std::int64_t n, std::int64_t k) const;

  // A collective that compute waits for; nothing where the slot has one device.
  void collective(std::string_view name, Slot slot, cost::CollectiveOp op, double bytes, Category category,
                  double hidden = 0);
  // One that runs on a stream of its own once what was issued on the streams in `waits` has ended.
  void beside(std::string_view name, Slot slot, cost::CollectiveOp op, double bytes, Stream stream, std::uint8_t waits);
  // A message, `waits` as above.
  void send(std::string_view name, Slot slot, double bytes, Stream stream, std::uint8_t waits);
  void receive(std::string_view name, Slot slot, Stream stream, std::uint8_t waits);

  void append(const Tasks& other);
  void append_of_layer(const std::vector<Task>& tasks, int layer);  // as if of this layer
  void wait_next(std::uint8_t streams) { waits_ |= streams; }       // the next task of the compute stream waits
  void wait_next(Stream stream, std::int32_t lag) { lag_stream_ = stream, lag_ = lag; }

  // Everything here takes at least as long as the host needs to issue it: every task is an operation and a launch, and
  // there are the launches of `launched` on top. Where the device is quicker, a task of waiting is added. Within a
  // layer only sums count; whether the host `runs_ahead` over layers decides if an operation counts or its launch
  // alone.
  void launched(std::int64_t more) { more_launches_ += more; }
  void wait_for_host(bool runs_ahead = true);

  std::vector<Task>& list() { return tasks_; }

 private:
  void add(Task task);
  // A call on a stream of its own; what it waits for is given.
  void on_stream(Kind kind, std::string_view name, Stream stream, std::uint8_t waits, std::int32_t call);

  Builder& b_;
  std::int32_t layer_;
  std::uint8_t waits_ = 0;
  Stream lag_stream_ = Stream::kCompute;
  std::int32_t lag_ = 0;
  std::int64_t operations_ = 0, more_launches_ = 0;
  std::vector<Task> tasks_;
};

}  // namespace reel::sim
