#include "reel/base/caches.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace reel {

namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32K" or "260M" in bytes.
std::size_t size_in_bytes(const std::string& text) {
  const std::size_t value = std::strtoull(text.c_str(), nullptr, 10);
  return text.ends_with('K') ? value << 10 : text.ends_with('M') ? value << 20 : value;
}

// Not from sysconf: with the C library of Debian 12 it counts the L3 of a whole package on AMD, whose cores share a
// part of it each.
Caches read_caches() {
  Caches caches;
  for (int index = 0; index < 8; ++index) {
    const fs::path cache = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    const std::string level = first_line(cache / "level");
    if (level.empty()) break;
    if (first_line(cache / "type") == "Instruction") continue;
    (level == "1" ? caches.l1 : level == "2" ? caches.l2 : caches.l3) = size_in_bytes(first_line(cache / "size"));
  }
  return caches;
}

}  // namespace

const Caches& caches() {
  static const Caches found = read_caches();
  return found;
}

}  // namespace reel
