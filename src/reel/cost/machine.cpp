#include "reel/cost/machine.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "reel/base/caches.h"
#include "reel/base/error.h"
#include "reel/base/threads.h"
#include "reel/files/file.h"
#include "reel/files/toml.h"

namespace reel::cost {

namespace {

namespace fs = std::filesystem;

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

Machine describe_this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  machine.cores = default_threads();
  machine.l1 = static_cast<double>(caches().l1);
  machine.l2 = static_cast<double>(caches().l2);
  machine.l3 = static_cast<double>(caches().l3);
  machine.memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return machine;
}

bool same_cpu(const Machine& measured, const Machine& here) {
  return measured.cpu == here.cpu && measured.target == here.target;
}

std::string machine_path() {
  if (const char* path = std::getenv("REEL_MACHINE"); path != nullptr && *path != '\0') return path;
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0') {
    return std::string(config) + "/reel/machine.toml";
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : ".") + "/.config/reel/machine.toml";
}

std::string break_even_path() {
  std::string cpu = cpu_name();
  for (char& c : cpu) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return (fs::path(machine_path()).parent_path() / ("break-even-" + cpu + ".csv")).string();
}

void save(const Machine& machine, const std::string& path) {
  std::string text =
      "# Written by reel doctor --measure. Sizes in bytes, rates per second, all threads together where not said.\n";
  text += fmt::format("cpu = {}\ntarget = {}\ncores = {}\nthreads = {}\n", quoted(machine.cpu), quoted(machine.target),
                      machine.cores, machine.threads);
  text += fmt::format("l1 = {:.0f}\nl2 = {:.0f}\nl3 = {:.0f}\nmemory = {:.0f}\n", machine.l1, machine.l2, machine.l3,
                      machine.memory);
  text +=
      fmt::format("peak_one = {:.6e}  # flop/s of one thread\npeak_all = {:.6e}\n", machine.peak_one, machine.peak_all);
  for (const MemoryLevel& level : machine.levels) {
    text += fmt::format(
        "\n[[level]]\nname = {}\nbytes = {:.0f}  # per thread\nread = {:.6e}\nwrite = {:.6e}\ncopy = {:.6e}\n",
        quoted(level.name), level.bytes, level.read, level.write, level.copy);
  }
  std::error_code ignored;  // write_file_atomically says what is wrong
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, ignored);
  write_file_atomically(path, text);
}

Machine load_machine(const std::string& path) {
  const Toml toml = Toml::load(path);
  Machine machine;
  machine.cpu = toml.string("cpu");
  machine.target = toml.string("target");
  machine.cores = static_cast<int>(toml.integer_in("cores", 1, 1 << 20));
  machine.threads = static_cast<int>(toml.integer_in("threads", 1, 1 << 20));
  constexpr double kMost = 1e30;
  machine.l1 = toml.number_in("l1", 0, kMost);
  machine.l2 = toml.number_in("l2", 0, kMost);
  machine.l3 = toml.number_in("l3", 0, kMost);
  machine.memory = toml.number_in("memory", 0, kMost);
  machine.peak_one = toml.number_in("peak_one", 1, kMost);
  machine.peak_all = toml.number_in("peak_all", 1, kMost);
  for (std::size_t i = 0; i < toml.size("level"); ++i) {
    const std::string at = fmt::format("level[{}].", i);
    machine.levels.push_back({toml.string(at + "name"), toml.number_in(at + "bytes", 0, kMost),
                              toml.number_in(at + "read", 0, kMost), toml.number_in(at + "write", 0, kMost),
                              toml.number_in(at + "copy", 0, kMost)});
  }
  toml.check_all_used();
  return machine;
}

}  // namespace reel::cost
