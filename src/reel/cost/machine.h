// What this machine is and what it can do at most. `reel doctor --measure` keeps it in one file, by which `reel plan`
// prices key lists on the CPU it was measured on. `reel study` only asks whether it is there; benches measure
// the peak in each run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reel::cost {

// Bandwidth of one level of memory, all threads together, in bytes per second. `bytes` per thread were used to measure
// it.
struct MemoryLevel {
  std::string name;  // "L1", "L2", "L3", "memory"
  double bytes = 0;
  double read = 0, write = 0, copy = 0;
};

struct Machine {
  std::string cpu;                    // model name
  std::string target;                 // instruction set of the kernels: "avx2"
  int cores = 0;                      // that this process may use
  int threads = 0;                    // that were used to measure
  double l1 = 0, l2 = 0, l3 = 0;      // cache sizes in bytes: of a core, of a core, of all; 0: unknown
  double memory = 0;                  // bytes
  double peak_one = 0, peak_all = 0;  // f32 multiply-adds of one thread and of all, flop/s; 0: not measured
  std::vector<MemoryLevel> levels;
};

// Everything but the measurements and the target.
Machine describe_this_machine();

// Whether what was measured holds for `here`: the same CPU and the same instruction set.
bool same_cpu(const Machine& measured, const Machine& here);

// $REEL_MACHINE, or machine.toml in the user's configuration folder for reel.
std::string machine_path();
// Beside it: where break-evens of this CPU are kept (sparsity/break_even.h).
std::string break_even_path();
void save(const Machine& machine, const std::string& path);  // makes the folder
Machine load_machine(const std::string& path);               // Error: what is missing or wrong, with its line

}  // namespace reel::cost
