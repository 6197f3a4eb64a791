#include "reel/sim/builder.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::sim {

Builder::Builder(const Job& j, const cost::Cluster& c, const Measured& measured, Workload& w)
    : job(j), cluster(c), device(c.device, measured.kernels), layout(j, c), workload(w), measured_(measured) {
  layout.add_groups(workload);
}

std::int32_t Builder::name(std::string_view text) {
  const auto [entry, fresh] = names_.try_emplace(std::string(text), static_cast<std::int32_t>(workload.names.size()));
  if (fresh) workload.names.emplace_back(text);
  return entry->second;
}

cost::CollectiveCost Builder::price(const Spread& placement, cost::CollectiveOp op, double bytes) {
  cost::CollectiveCost result;
  if (op == cost::CollectiveOp::kSendRecv) {
    result = cost::send_cost(cluster, bytes, placement.per_node < placement.devices, placement.sharing);
  } else {
    result = cost::cost_of(cluster, {op, placement.devices, placement.per_node, bytes, placement.sharing});
    ++priced_;
    if (result.outside_fit) ++extrapolated_;
  }
  result.seconds *= placement.slow;
  return result;
}

std::int32_t Builder::call(Slot slot, cost::CollectiveOp op, double bytes, double hidden) {
  const auto& spreads = layout.spreads(slot);
  if (spreads.empty()) return -1;
  const auto [entry, fresh] =
      calls_.try_emplace(std::tuple(static_cast<int>(slot), static_cast<int>(op), bytes, hidden),
                         static_cast<std::int32_t>(workload.calls.size()));
  if (!fresh) return entry->second;
  Call call{slot, bytes, {}};
  for (const Spread& placement : spreads) {
    const cost::CollectiveCost price_of = price(placement, op, bytes);
    CallCost cost;
    cost.duration = picoseconds(std::max(0.0, price_of.seconds - hidden));
    cost.link = price_of.across ? Link::kNetwork : Link::kNode;
    cost.load = static_cast<std::int32_t>(std::lround(1000 * price_of.load));
    for (const auto kind : {cost::KernelClass::kGemm, cost::KernelClass::kAttention, cost::KernelClass::kMemory}) {
      cost.slowdown[sized(kind)] =
          static_cast<std::int32_t>(std::lround(1000 * cost::slowdown(cluster, kind, price_of, measured_.overlap)));
    }
    call.costs.push_back(cost);
  }
  workload.calls.push_back(std::move(call));
  return entry->second;
}

double Builder::hiding_seconds(Slot slot, cost::CollectiveOp op, double bytes, double seconds, cost::KernelClass kind) {
  const auto& spreads = layout.spreads(slot);
  if (spreads.empty()) return 0;
  const cost::CollectiveCost price_of = price(spreads.front(), op, bytes);
  const double slow = cost::slowdown(cluster, kind, price_of, measured_.overlap);
  return std::min(seconds, price_of.seconds) * (slow - 1) / slow;
}

void Tasks::add(Task task) {
  if (task.stream == Stream::kCompute) {
    task.waits |= waits_;
    task.lag_stream = lag_stream_, task.lag = lag_;
    waits_ = 0, lag_ = 0;
  }
  task.layer = layer_;
  tasks_.push_back(task);
  ++operations_;
}

void Tasks::append(const Tasks& other) {
  tasks_.insert(tasks_.end(), other.tasks_.begin(), other.tasks_.end());
  operations_ += other.operations_, more_launches_ += other.more_launches_;
}

void Tasks::wait_for_host(bool runs_ahead) {
  Picoseconds busy = 0;
  for (const Task& task : tasks_) {
    if (task.stream != Stream::kCompute) continue;
    busy += task.call < 0 ? task.duration : b_.workload.calls[sized(task.call)].costs.front().duration;
  }
  const cost::Device& d = b_.cluster.device;
  const double host = static_cast<double>(operations_) * (runs_ahead ? d.issue : std::max(d.issue, d.operation)) +
                      static_cast<double>(more_launches_) * d.issue - seconds(busy);
  if (host > 0) kernel(kHostWait, host, cost::KernelClass::kGemm);
}

void Tasks::kernel(std::string_view name, double seconds, cost::KernelClass kind, Category category) {
  Task task;
  task.category = category;
  task.kernel = static_cast<std::uint8_t>(kind);
  task.name = b_.name(name);
  task.duration = picoseconds(seconds);
  add(task);
}

double Tasks::gemm_seconds(std::int64_t m, std::int64_t n, std::int64_t k) const {
  return b_.device.seconds(
      cost::Gemm{m, n, k, 1, b_.job.precision == "fp8" ? cost::Precision::kFp8 : cost::Precision::kBf16});
}

double Tasks::gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, double longer, bool narrow) {
  const double seconds = narrow ? gemm_seconds(m, n, k) : b_.device.seconds(cost::Gemm{m, n, k});
  kernel(name, seconds + longer, cost::KernelClass::kGemm);
  return seconds;
}

void Tasks::collective(std::string_view name, Slot slot, cost::CollectiveOp op, double bytes, Category category,
                       double hidden) {
  Task task;
  task.kind = Kind::kCollective;
  task.category = category;
  task.name = b_.name(name);
  task.call = b_.call(slot, op, bytes, hidden);
  if (task.call >= 0) add(task);
}

void Tasks::on_stream(Kind kind, std::string_view name, Stream stream, std::uint8_t waits, std::int32_t call) {
  Task task;
  task.kind = kind;
  task.stream = stream;
  task.category = stream_category(stream);
  task.waits = waits;
  task.name = b_.name(name);
  task.call = call;
  add(task);
}

void Tasks::beside(std::string_view name, Slot slot, cost::CollectiveOp op, double bytes, Stream stream,
                   std::uint8_t waits) {
  const auto call = b_.call(slot, op, bytes);
  if (call >= 0) on_stream(Kind::kCollective, name, stream, waits, call);
}

void Tasks::send(std::string_view name, Slot slot, double bytes, Stream stream, std::uint8_t waits) {
  const auto call = b_.call(slot, cost::CollectiveOp::kSendRecv, bytes);
  REEL_CHECK(call >= 0);
  on_stream(Kind::kSend, name, stream, waits, call);
}

void Tasks::receive(std::string_view name, Slot slot, Stream stream, std::uint8_t waits) {
  const auto call = b_.call(slot, cost::CollectiveOp::kSendRecv, 0, 1e9);  // the sender says how long it takes
  REEL_CHECK(call >= 0);
  on_stream(Kind::kReceive, name, stream, waits, call);
}

void Tasks::append_of_layer(const std::vector<Task>& tasks, int layer) {
  for (Task task : tasks) {
    const bool computes = task.stream == Stream::kCompute;
    if (computes) {
      task.waits |= waits_;
      if (lag_ != 0) task.lag_stream = lag_stream_, task.lag = lag_;
      waits_ = 0, lag_ = 0;
    }
    task.layer = layer;
    tasks_.push_back(task);
  }
}

}  // namespace reel::sim
