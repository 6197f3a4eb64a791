#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string_view>

#include "reel/base/error.h"
#include "reel/sparsity/lists_bytes.h"
#include "reel/train/trainer.h"

namespace reel::train {

namespace {

std::string gigabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

// The first number after `key` at the beginning of a line; 0 where there is none. "": the first number of the file.
double number_in(const std::string& path, std::string_view key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr);
  }
  return 0;
}

}  // namespace

StepNeed step_need(const RunConfig& config, int rank, int ranks, Recorder* recorder) {
  StepNeed need;
  const auto world = comm::make_ghost(rank, ranks);
  parallel::Team team(*world, ranks == 1 ? layout::Degrees{} : config.parallel.plan);
  const auto model = model::make_denoiser(config.model, tape::Parameters::With::kGhostGradients);
  const double trained = static_cast<double>(model->parameters().trained_floats()) * sizeof(float);
  need.weights = static_cast<double>(model->parameters().value_bytes());
  need.gradients = trained;
  std::size_t owned = 0;
  for (const optim::Range& range : parallel::Zero(model->parameters(), team.world()).owned()) owned += range.size();
  need.optimizer = static_cast<double>(optim::Optimizer::state_bytes(config.optim, owned));
  Threads one(1);
  tape::Pool pool(true);
  Recorder own;
  if (recorder == nullptr) recorder = &own;
  const std::size_t before = recorder->records().size();
  world->shared().recorder = recorder;
  // Sparsity changes the order of the tokens and where they rest; a ghost chooses no keys.
  const std::unique_ptr<sparsity::Controller> controller = make_controller(config, {});
  const layout::Cut clips = clips_of(config, team.data().size());
  {
    tape::Tape tape(one, pool, {.recorder = recorder});
    model::Context context(tape, {.kind = sparsity::Pass::Kind::kTraining, .clips = clips}, controller.get());
    const Objective objective(config);
    context.recompute = config.train.recompute;
    context.team = &team;
    tape.backward(objective.loss(context, *model, {}, clips.size(team.data().rank()), {}, true));
  }
  need.activations = static_cast<double>(pool.peak_bytes());
  if (config.sparsity.on()) {
    need.lists = sparsity::lists_bytes_of(config.sparsity, model_heads(config), token_order(config), config.train.batch,
                                          kListsShare * need.dense_bytes());
  }
  if (config.train.recompute) {  // useful work only: the same pass without running anything twice
    RunConfig plain = config;
    plain.train.recompute = false;
    const StepNeed once = step_need(plain, rank, ranks);
    need.flops = once.flops;
    need.self_attention_flops = once.self_attention_flops;
  } else {
    for (const Record& record : std::span(recorder->records()).subspan(before)) {
      const double flops = reel::flops(record.work) * static_cast<double>(config.train.accumulate);
      need.flops += flops;
      if (is_self_attention(record.work)) need.self_attention_flops += flops;
    }
  }
  const auto& c = config;
  need.tokens = c.train.batch * c.train.accumulate * (c.video.frames / c.model.patch[0]) *
                (c.video.height / c.model.patch[1]) * (c.video.width / c.model.patch[2]);
  return need;
}

double available_memory(const std::string& root) {
  double available = number_in(root + "/proc/meminfo", "MemAvailable:") * 1024;
  // A container's limit, both generations; a limit that is not set reads as "max" or as an absurd number. What the
  // container uses includes its page cache, which fills up whatever is left but is given back when it is needed.
  struct Group {
    const char *limit, *used, *stat, *caches[2];
  };
  const Group groups[] = {{"/memory.max", "/memory.current", "/memory.stat", {"active_file ", "inactive_file "}},
                          {"/memory/memory.limit_in_bytes",
                           "/memory/memory.usage_in_bytes",
                           "/memory/memory.stat",
                           {"total_active_file ", "total_inactive_file "}}};
  for (const Group& group : groups) {
    const std::string folder = root + "/sys/fs/cgroup";
    const double most = number_in(folder + group.limit);
    if (most <= 0 || most >= 1e15) continue;
    double free = most - number_in(folder + group.used);
    for (const char* cache : group.caches) free += number_in(folder + group.stat, cache);
    available = std::min(available > 0 ? available : most, std::max(free, 1.0));
  }
  return available;
}

std::string memory_line(const StepNeed& need, double available, int ranks) {
  return fmt::format("memory{}: {} = weights {} + gradients {} + optimizer {} + activations {}{}{}",
                     ranks == 1 ? "" : " of a rank", gigabytes(need.bytes()), gigabytes(need.weights),
                     gigabytes(need.gradients), gigabytes(need.optimizer), gigabytes(need.activations),
                     need.lists > 0 ? fmt::format(" + lists of keys {}", gigabytes(need.lists)) : "",
                     available > 0 ? fmt::format("; {} available", gigabytes(available)) : "");
}

void check_memory(const RunConfig& config, const StepNeed& need, double available, int ranks) {
  if (available <= 0 || need.bytes() <= available) return;
  std::vector<std::string> help;
  const auto offer = [&](const char* what, const RunConfig& changed) {
    const double bytes = step_need(changed, 0, ranks).bytes();
    if (bytes < need.bytes()) {
      help.push_back(
          fmt::format("{} brings it to {}{}", what, gigabytes(bytes), bytes <= available ? "" : ", still too much"));
    }
  };
  RunConfig changed = config;
  if (!config.train.recompute) {
    changed.train.recompute = true;
    offer("train.recompute = true", changed);
  }
  if (config.train.batch > 1 && ranks == 1) {
    changed = config;
    changed.train.accumulate = config.train.accumulate * config.train.batch;
    changed.train.batch = 1;
    offer("train.batch = 1 with train.accumulate in its place", changed);
    if (!config.train.recompute) {
      changed.train.recompute = true;
      offer("both", changed);
    }
  }
  if (config.optim.ema > 0) {
    changed = config;
    changed.optim.ema = 0;
    offer("train.ema = 0", changed);
  }
  help.push_back("fewer frames, smaller frames (video.*) or a smaller model");
  throw Error(fmt::format("this run needs {}, {} are available", gigabytes(need.bytes()), gigabytes(available)),
              fmt::format("{}", fmt::join(help, "\n")));
}

}  // namespace reel::train
