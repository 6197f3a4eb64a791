#include "reel/app/plan_input.h"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "reel/app/lists_file.h"
#include "reel/cost/cluster.h"
#include "reel/cost/machine.h"
#include "reel/files/safetensors.h"
#include "reel/kernels/cpu.h"

namespace reel::app {

namespace {

constexpr const char* kMaskHint = "`mask` is [heads, query blocks, key blocks], bool or u8 with 0 and 1";

lists::KeyLists read_mask(const SafetensorsFile& file) {
  const TensorInfo& info = file.info("mask");
  if (info.dtype != Dtype::kBool && info.dtype != Dtype::kU8)
    throw Error(fmt::format("{}: mask is {}", file.name(), dtype_name(info.dtype)), kMaskHint);
  std::vector<std::int64_t> shape = info.shape;
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() != 3) {
    throw Error(
        fmt::format("{}: mask has {} dimensions ({})", file.name(), info.shape.size(), fmt::join(info.shape, " x ")),
        kMaskHint);
  }
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 1; }))
    throw Error(fmt::format("{}: mask is {}, which is empty", file.name(), fmt::join(shape, " x ")), kMaskHint);
  constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) / plan::kBlockTokens - 1;
  if (shape[1] > kMostBlocks || shape[2] > kMostBlocks)
    throw Error(fmt::format("{}: mask is {}", file.name(), fmt::join(shape, " x ")), "tokens are counted in 32 bits");
  const std::vector<std::uint8_t> mask = file.read_u8("mask");
  const auto wrong = std::find_if(mask.begin(), mask.end(), [](std::uint8_t value) { return value > 1; });
  if (wrong != mask.end()) {
    const auto at = wrong - mask.begin();
    throw Error(fmt::format("{}: mask holds {} for head {}, query block {}, key block {}", file.name(), *wrong,
                            at / (shape[1] * shape[2]), at / shape[2] % shape[1], at % shape[2]),
                kMaskHint);
  }
  return plan::lists_of_mask(mask, shape[0], shape[1], shape[2]);
}

// Less: characters in turn, but runs of digits by their value.
bool by_number(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto number = [&](const std::string& text, std::size_t& at) {
    while (at < text.size() && text[at] == '0') ++at;
    const std::size_t begin = at;
    while (at < text.size() && digit(text[at])) ++at;
    return text.substr(begin, at - begin);
  };
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const std::string x = number(a, i), y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

PlanInput read_lists_or_mask(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (file.contains("mask")) return {path, lists::OrderedLists(read_mask(file)), true};
  if (file.contains("keys") && file.contains("offsets")) return {path, lists::load_key_lists(file)};
  const std::size_t shown = std::min<std::size_t>(file.names().size(), 5);
  throw Error(
      fmt::format(
          "{}: neither key lists nor a mask ({})", path,
          file.names().empty()
              ? "it holds no tensors"
              : fmt::format("it holds {}", fmt::join(file.names().begin(),
                                                     file.names().begin() + static_cast<std::ptrdiff_t>(shown), ", "))),
      "give key lists (reel train --dump-masks, reel study lists), or `mask` [heads, query blocks, key blocks]");
}

}  // namespace

std::int64_t PlanInput::group_queries() const {
  std::int64_t most = 1;
  for (std::size_t g = 0; g + 1 < lists.group_starts.size(); ++g)
    most = std::max<std::int64_t>(most, lists.group_starts[g + 1] - lists.group_starts[g]);
  return most;
}

PlanInput read_plan_input(const std::string& path, std::int64_t head_dim, const PlanInput* before) {
  constexpr std::int64_t kAssumed = 128;
  PlanInput input = read_lists_or_mask(path);
  if (before == nullptr) {
    if (!input.mask) tell_assumed_order(path, input.lists);
    input.head_dim = head_dim_of(path, input.lists.head_dim, head_dim, kAssumed);
    return input;
  }
  input.head_dim = input.lists.head_dim != 0 ? input.lists.head_dim : before->head_dim;
  if (input.head_dim != before->head_dim) {
    throw Error(
        fmt::format("{} is of heads of {} floats, {} of {}", path, input.head_dim, before->path, before->head_dim),
        "take files of one model; where a file does not say it, --head-dim does");
  }
  if (!lists::same_order(input.lists, before->lists)) {
    throw Error(fmt::format("{}: tokens are in another order than in {}", path, before->path),
                "query groups have to be of the same tokens: take files of one run, or of one --grid and --tile;\n"
                "where there is no tensor 'order', raster order is assumed");
  }
  return input;
}

Costing costing_of(const PlanInput& input, const std::string& cluster) {
  const auto describe = [](const plan::GroupCost& cost, const std::string& whose) {
    return Costing{cost, fmt::format("{:.3g} + {:.3g} x keys ns, {}", cost.fixed * 1e9, cost.per_key * 1e9, whose)};
  };
  if (!cluster.empty()) {
    return describe(plan::group_cost(cost::load_cluster(cluster), input.group_queries(), input.head_dim),
                    "on " + cluster);
  }
  if (input.mask) return {plan::kBlockCost, "the number of blocks"};
  const std::string path = cost::machine_path();
  if (!std::filesystem::exists(path)) return {{0, 1}, "the number of keys (reel doctor --measure prices them)"};
  const cost::Machine measured = cost::load_machine(path);
  cost::Machine here = cost::describe_this_machine();
  here.target = kernels::target();
  if (!cost::same_cpu(measured, here)) {
    return {{0, 1},
            fmt::format("the number of keys ({} is of another CPU: {}, {}; this is {}, {}; reel doctor --measure "
                        "measures this one)",
                        path, measured.cpu, measured.target, here.cpu, here.target)};
  }
  return describe(plan::group_cost(measured, input.group_queries(), input.head_dim), "on this machine");
}

plan::Counts count_work(const PlanInput& input, const plan::GroupCost& cost, int ranks) {
  try {
    return plan::count_work(input.lists, cost, ranks);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", input.path, error.what()), error.hint());
  }
}

std::vector<std::string> matching_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
    if (status == 0) files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status != 0)
      throw Error(fmt::format("no file matches '{}'", pattern), "give files of masks or key lists, one a step");
  }
  std::sort(files.begin(), files.end(), by_number);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace reel::app
