#include "reel/app/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/file.h"
#include "reel/kernels/cpu.h"
#include "reel/kernels/peak.h"
#include "reel/train/trainer.h"

namespace reel::app {

namespace {

constexpr int kNameWidth = 46;
constexpr double kPeakSeconds = 0.06;

void print_row(const BenchRow& row, double peak) {
  std::string line = fmt::format("{:{}} {:>10}", row.name, kNameWidth, format_seconds(row.seconds));
  if (row.flops > 0) {
    const double rate = row.flops / row.seconds;
    line += fmt::format(" {:>9.1f} {:>7.2f}", rate / 1e9, rate / peak);
  } else if (row.speedup > 0) {
    line += fmt::format(" {:>9} {:>7}", "", "");
  }
  if (row.speedup > 0) line += fmt::format("   {:.2f} {}", row.speedup, row.against);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

void reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");  // 5: forget the largest size so far
  file << 5;
}

double peak_resident() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) * 1024;
  }
  return 0;
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string format_bytes(double bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.0f} {}", bytes, units[unit]);
}

void check_room(double floats) {
  const double need = floats * sizeof(float), available = train::available_memory();
  if (available <= 0 || need <= available) return;
  throw Error(fmt::format("these sizes need {}, and {} are available", format_bytes(need), format_bytes(available)),
              "use smaller sizes, or a machine with more memory");
}

cost::Machine measure_machine(Threads& threads, double seconds) {
  cost::Machine machine = cost::describe_this_machine();
  machine.target = kernels::target();
  machine.threads = threads.count();
  Threads one(1);
  machine.peak_one = kernels::peak_flops(one, seconds);
  machine.peak_all = threads.count() == 1 ? machine.peak_one : kernels::peak_flops(threads, seconds);
  // Half of a cache: the rest belongs to others. L3 is shared by the threads; memory lies beyond all caches.
  const double share = std::max(1, threads.count());
  const std::pair<const char*, double> levels[] = {
      {"L1", machine.l1 / 2},
      {"L2", machine.l2 / 2},
      {"L3", std::max(machine.l3 / 2 / share, machine.l2)},
      {"memory", std::clamp(machine.l3 * 4 / share, 128.0 * (1 << 20), 512.0 * (1 << 20))},
  };
  for (const auto& [name, bytes] : levels) {
    if (bytes <= 0) continue;
    const auto size = sized(bytes);
    machine.levels.push_back({name, bytes, kernels::bandwidth(kernels::Access::kRead, size, threads, seconds),
                              kernels::bandwidth(kernels::Access::kWrite, size, threads, seconds),
                              kernels::bandwidth(kernels::Access::kCopy, size, threads, seconds)});
  }
  return machine;
}

cost::Machine machine_of_peak(const Threads& threads, double peak) {
  cost::Machine machine = cost::describe_this_machine();
  machine.target = kernels::target();
  machine.threads = threads.count();
  machine.peak_all = peak;
  if (threads.count() == 1) machine.peak_one = peak;
  return machine;
}

nlohmann::ordered_json to_json(const cost::Machine& machine) {
  nlohmann::ordered_json levels = nlohmann::json::array();
  for (const cost::MemoryLevel& level : machine.levels) {
    levels.push_back({{"name", level.name},
                      {"bytes", level.bytes},
                      {"read", level.read},
                      {"write", level.write},
                      {"copy", level.copy}});
  }
  nlohmann::ordered_json out = {{"cpu", machine.cpu},
                                {"target", machine.target},
                                {"cores", machine.cores},
                                {"threads", machine.threads},
                                {"peak_all", machine.peak_all}};
  if (machine.peak_one > 0) out["peak_one"] = machine.peak_one;
  if (!levels.empty()) out["levels"] = levels;
  return out;
}

Bench::Bench(std::string title, Threads& threads) : threads_(threads), peak_(kernels::peak_flops(threads)) {
  fmt::print("{}: {} thread{}, {}, measured peak {:.1f} GFLOP/s\n\n", title, threads.count(),
             threads.count() == 1 ? "" : "s", kernels::target(), peak_ / 1e9);
  fmt::print("{:{}} {:>10} {:>9} {:>7}   {}\n", "case", kNameWidth, "time", "GFLOP/s", "of peak", "times");
  fmt::print("{}\n", std::string(kNameWidth + 50, '-'));
  std::fflush(stdout);  // also where it is no terminal: the first row may take minutes
}

void Bench::add(const BenchRow& row) {
  // Once more beside every row: a peak found in a bad moment makes shares too good.
  if (row.flops > 0) peak_ = std::max(peak_, kernels::peak_flops(threads_, kPeakSeconds));
  rows_.push_back(row);
  print_row(row, peak_);
}

void Bench::finish(const std::string& json) {
  const double again = kernels::peak_flops(threads_);
  peak_ = std::max(peak_, again);
  fmt::print("\nbest peak of this run: {:.1f} GFLOP/s; it counts in the shares of the file\n", peak_ / 1e9);
  if (json.empty()) return;
  nlohmann::ordered_json rows = nlohmann::json::array();
  for (const BenchRow& row : rows_) {
    nlohmann::ordered_json out = {{"case", row.name}, {"seconds", row.seconds}};
    if (row.flops > 0) {
      out["flops"] = row.flops;
      out["gflops"] = row.flops / row.seconds / 1e9;
      out["share_of_peak"] = row.flops / row.seconds / peak_;
    } else {  // no multiply-adds are counted, but every row has the same columns
      out["gflops"] = out["share_of_peak"] = nullptr;
    }
    if (row.speedup > 0) {
      out["speedup"] = row.speedup;
      out["against"] = row.against;
    }
    for (const auto& [key, value] : row.more) out[key] = value;
    rows.push_back(out);
  }
  nlohmann::ordered_json all = {{"machine", to_json(machine_of_peak(threads_, peak_))}, {"rows", rows}};
  write_file_atomically(json, all.dump(1) + "\n");
}

}  // namespace reel::app
