// Measuring for the verbs: this machine, and benchmarks with a table for people and JSON for machines.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reel/base/threads.h"
#include "reel/cost/machine.h"

namespace reel::app {

// Describes and measures; each rate for about `seconds`.
cost::Machine measure_machine(Threads& threads, double seconds);
// The same with a peak of all threads that is known: no bandwidths, and no peak of one thread where there are several.
cost::Machine machine_of_peak(const Threads& threads, double peak);
nlohmann::ordered_json to_json(const cost::Machine& machine);  // the "machine" of every --json

struct BenchRow {
  std::string name;  // "dense forward 4x8192x64"
  double seconds = 0;
  double flops = 0;    // useful work; 0: rate and share are left out
  double speedup = 0;  // over what `against` says; 0: no comparison
  std::string against;
  std::map<std::string, double> more;  // further figures, JSON only
};

// Collects rows, printing each as it comes; the peak is measured before the first, beside each and after the last row,
// the best counts.
class Bench {
 public:
  Bench(std::string title, Threads& threads);
  void add(const BenchRow& row);
  // Prints the table's end; writes {"machine": {...}, "rows": [...]} to `json` unless that is empty.
  void finish(const std::string& json);
  double peak() const { return peak_; }

 private:
  Threads& threads_;
  double peak_;
  std::vector<BenchRow> rows_;
};

// Before tensors of `floats` floats in all are made: Error where the machine does not have that much. Each of them
// alone might be granted, and the process be killed when they are filled.
void check_room(double floats);

// The most memory this process held since reset_peak_resident(), in bytes; 0 where the system does not say.
void reset_peak_resident();
double peak_resident();

std::string format_seconds(double seconds);  // "12.3 ms"
std::string format_bytes(double bytes);      // "512 KB"

}  // namespace reel::app
