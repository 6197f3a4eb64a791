#include "reel/base/record.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reel/base/error.h"

namespace reel {

namespace {

void add(Total& total, const Record& record) {
  ++total.count;
  total.seconds += record.seconds;
  total.flops += flops(record.work);
  total.bytes += bytes(record.work);
}

}  // namespace

void Recorder::record(Work work, double start, double seconds) {
  const std::thread::id thread = std::this_thread::get_id();
  if (owner_ == std::thread::id()) owner_ = thread;
  REEL_CHECK(owner_ == thread);
  records_.push_back({std::move(work), start, seconds});
}

void Recorder::clear() {
  records_.clear();
  clock_.restart();
  owner_ = {};
}

Total total_of(std::span<const Record> records, const Wanted& wanted) {
  Total total;
  for (const Record& record : records) {
    if (wanted(record.work)) add(total, record);
  }
  return total;
}

std::vector<Total> totals_by_name(std::span<const Record> records, const Wanted& wanted) {
  std::map<std::string_view, Total> by_name;
  for (const Record& record : records) {
    if (wanted(record.work)) add(by_name[display_name(record.work)], record);
  }
  std::vector<Total> totals;
  for (auto& [name, total] : by_name) {
    total.name = name;
    totals.push_back(total);
  }
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.seconds > b.seconds; });
  return totals;
}

}  // namespace reel
