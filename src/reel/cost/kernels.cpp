#include "reel/cost/kernels.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/csv.h"
#include "reel/files/file.h"
#include "reel/files/nearest.h"

namespace reel::cost {

namespace {

double positive(const Csv& csv, std::size_t row, std::string_view column, const std::string& file) {
  const double value = csv.number(row, column);
  if (!(value > 0) || std::isinf(value)) {
    throw Error(fmt::format("{}:{}: {} is {}", file, csv.line(row), column, csv.text(row, column)),
                "a measured time is above 0");
  }
  return value;
}

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

KernelTable KernelTable::load(const std::string& path) { return parse(read_file(path), path); }

KernelTable KernelTable::parse(std::string_view text, const std::string& name) {
  static const std::vector<std::string> kFirstWords = {"gemm", "attention", "sparse"};
  const Csv csv = Csv::parse(text, name);
  KernelTable table;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& kernel = csv.text(row, "kernel");
    if (std::find(kFirstWords.begin(), kFirstWords.end(), first_word(kernel)) == kFirstWords.end()) {
      throw Error(fmt::format("{}:{}: no kernel is called '{}'", name, csv.line(row), kernel),
                  nearest_hint(first_word(kernel), kFirstWords, "kernels") +
                      "; written as 'gemm 4096x1024x1024 bf16' or 'attention forward 16x4096x4096x128 flash'");
    }
    if (!table.seconds_.emplace(kernel, positive(csv, row, "seconds", name)).second) {
      throw Error(fmt::format("{}:{}: '{}' is there twice", name, csv.line(row), kernel), "keep one of the rows");
    }
  }
  return table;
}

std::optional<double> KernelTable::find(const std::string& kernel) const {
  const auto found = seconds_.find(kernel);
  return found == seconds_.end() ? std::nullopt : std::optional(found->second);
}

OverlapTable OverlapTable::load(const std::string& path) { return parse(read_file(path), path); }

OverlapTable OverlapTable::parse(std::string_view text, const std::string& name) {
  static const std::vector<std::string> kClasses = {"gemm", "attention", "memory"};
  const Csv csv = Csv::parse(text, name);
  std::array<std::vector<double>, 3> ratios;
  std::unordered_map<std::string, std::vector<double>> by_name;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    std::size_t kind = sized(class_of_kernel(csv.text(row, "kernel")));
    if (csv.has("class")) {
      const auto found = std::find(kClasses.begin(), kClasses.end(), csv.text(row, "class"));
      if (found == kClasses.end()) {
        throw Error(fmt::format("{}:{}: class '{}' is not known", name, csv.line(row), csv.text(row, "class")),
                    nearest_hint(csv.text(row, "class"), kClasses, "classes"));
      }
      kind = sized(found - kClasses.begin());
    }
    const double ratio = positive(csv, row, "overlapped", name) / positive(csv, row, "alone", name);
    ratios[kind].push_back(ratio);
    by_name[csv.text(row, "kernel")].push_back(ratio);
  }
  OverlapTable table;
  for (std::size_t kind = 0; kind < ratios.size(); ++kind) {
    if (!ratios[kind].empty()) table.of_class_[kind] = std::max(1.0, median(ratios[kind]));
  }
  for (const auto& [kernel, some] : by_name) table.of_kernel_[kernel] = std::max(1.0, median(some));
  return table;
}

std::optional<double> OverlapTable::slowdown_of(const std::string& kernel) const {
  const auto found = of_kernel_.find(kernel);
  return found == of_kernel_.end() ? std::nullopt : std::optional(found->second);
}

KernelClass class_of_kernel(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto any = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return lower.find(word) != std::string::npos; });
  };
  if (any({"flash", "fmha", "attention", "attn"})) return KernelClass::kAttention;
  if (any({"gemm", "matmul", "cutlass", "cublas", "wgrad", "dgrad"})) return KernelClass::kGemm;
  return KernelClass::kMemory;
}

}  // namespace reel::cost
