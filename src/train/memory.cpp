#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "train/trainer.h"

namespace reel::train {

namespace {

std::string gigabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

double number_in(const char* path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : 0;
}

}  // namespace

StepNeed step_need(const RunConfig& config) {
  StepNeed need;
  const auto model = model::make_denoiser(config.model, tape::Parameters::With::kGhostGradients);
  const double trained = static_cast<double>(model->parameters().trained_floats()) * sizeof(float);
  need.weights = static_cast<double>(model->parameters().value_bytes());
  need.gradients = trained;
  need.optimizer =
      static_cast<double>(optim::Optimizer::state_bytes(config.optim, model->parameters().trained_floats()));
  Threads one(1);
  tape::Pool pool(true);
  Recorder recorder;
  {
    tape::Tape tape(one, pool, {.recorder = &recorder});
    model::Context context(tape);
    const Objective objective(config);
    context.recompute = config.train.recompute;
    tape.backward(objective.loss(context, *model, {}, config.train.batch, {}, true));
  }
  need.activations = static_cast<double>(pool.peak_bytes());
  if (config.train.recompute) {  // useful work only: the same pass without running anything twice
    RunConfig plain = config;
    plain.train.recompute = false;
    const StepNeed once = step_need(plain);
    need.flops = once.flops;
    need.attention_flops = once.attention_flops;
  } else {
    for (const Total& total : recorder.totals()) {
      const double flops = total.flops * static_cast<double>(config.train.accumulate);
      need.flops += flops;
      if (total.name == "attention") need.attention_flops += flops;
    }
  }
  const auto& c = config;
  need.tokens = c.train.batch * c.train.accumulate * (c.video.frames / c.model.patch[0]) *
                (c.video.height / c.model.patch[1]) * (c.video.width / c.model.patch[2]);
  return need;
}

double available_memory() {
  double available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) available = std::strtod(line.c_str() + 13, nullptr) * 1024;
  }
  // A container's limit, both generations; a limit that is not set reads as "max" or as an absurd number.
  for (const auto& [limit, used] :
       {std::pair("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const double most = number_in(limit);
    if (most > 0 && most < 1e15) available = std::min(available, std::max(most - number_in(used), 0.0));
  }
  return available;
}

void check_memory(const RunConfig& config, const StepNeed& need, double available) {
  fmt::print("memory: {} = weights {} + gradients {} + optimizer {} + activations {}{}\n", gigabytes(need.bytes()),
             gigabytes(need.weights), gigabytes(need.gradients), gigabytes(need.optimizer), gigabytes(need.activations),
             available > 0 ? fmt::format("; {} available", gigabytes(available)) : "");
  if (available <= 0 || need.bytes() <= available) return;
  std::vector<std::string> help;
  const auto offer = [&](const char* what, const RunConfig& changed) {
    const double bytes = step_need(changed).bytes();
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
  if (config.train.batch > 1) {
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
