#include "reel/base/record.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reel/base/error.h"

namespace reel {

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kOther:
      break;
  }
  return "other";
}

void Recorder::record(Operation operation, double start, double seconds) {
  const std::thread::id thread = std::this_thread::get_id();
  if (owner_ == std::thread::id()) owner_ = thread;
  REEL_CHECK(owner_ == thread);
  records_.push_back({std::move(operation), start, seconds});
}

void Recorder::clear() {
  records_.clear();
  clock_.restart();
  owner_ = {};
}

std::vector<Total> Recorder::totals() const {
  std::map<std::string, Total> by_name;
  for (const Record& record : records_) {
    Total& total = by_name[record.operation.name];
    ++total.count;
    total.seconds += record.seconds;
    total.flops += record.operation.flops;
    total.bytes += record.operation.bytes;
  }
  std::vector<Total> totals;
  for (auto& [name, total] : by_name) {
    total.name = name;
    totals.push_back(std::move(total));
  }
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.seconds > b.seconds; });
  return totals;
}

}  // namespace reel
