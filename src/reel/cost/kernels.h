// Measured times of kernels, which replace those of a model, and tables of kernels alone and overlapped.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "reel/base/sized.h"
#include "reel/cost/device.h"

namespace reel::cost {

// A CSV file with the columns kernel, seconds. A kernel is a name as of kernel_name (device.h). A name that no kernel
// can have, a second row of the same name and a time that is not above 0 are Errors.
class KernelTable {
 public:
  static KernelTable load(const std::string& path);
  static KernelTable parse(std::string_view text, const std::string& name);  // `name` stands for the file in errors

  std::optional<double> find(const std::string& kernel) const;
  std::size_t size() const { return seconds_.size(); }

 private:
  std::unordered_map<std::string, double> seconds_;
};

// A CSV file with the columns kernel, alone, overlapped (seconds, or any one unit) and, if it is not to be told by the
// kernel's name, class = gemm | attention | memory.
class OverlapTable {
 public:
  static OverlapTable load(const std::string& path);
  static OverlapTable parse(std::string_view text, const std::string& name);

  // Median of overlapped / alone, at least 1; nothing where the table has no kernel of the class.
  std::optional<double> slowdown(KernelClass kind) const { return of_class_[sized(kind)]; }
  std::optional<double> slowdown_of(const std::string& kernel) const;  // the same for the rows of one name

 private:
  std::array<std::optional<double>, 3> of_class_;
  std::unordered_map<std::string, double> of_kernel_;
};

// By the words in a kernel's name: gemm, matmul, cutlass; flash, fmha, attention; all others are bound by memory.
KernelClass class_of_kernel(std::string_view name);

}  // namespace reel::cost
