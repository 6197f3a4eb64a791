#include "reel/train/trained_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "reel/base/error.h"
#include "reel/model/folder.h"
#include "reel/train/checkpoint.h"

namespace reel::train {

TrainedRun open_run(const std::string& folder, const OpenOptions& options) {
  namespace fs = std::filesystem;
  using Sparsity = OpenOptions::Sparsity;
  const std::string file = folder + "/config.toml";
  if (!fs::exists(file)) {
    throw Error(fmt::format("{}: not a run: no config.toml", folder), "give the folder of `reel train`");
  }
  TrainedRun run;
  run.checkpoint = latest_checkpoint(folder);
  if (run.checkpoint.empty()) {
    throw Error(fmt::format("{}: no checkpoint yet", folder), "train.checkpoint_every says when there is one");
  }
  run.step = step_of_checkpoint(run.checkpoint);
  run.config = load_run(file, {}, run.checkpoint);
  if (options.sparsity == Sparsity::kAlways && !run.config.sparsity.on()) {
    run.config = load_run(file, {"sparsity.mode=dynamic"}, run.checkpoint);
  }
  run.model = model::make_denoiser(run.config.model, tape::Parameters::With::kValues);
  const std::string average = run.checkpoint + "/ema.safetensors";
  run.averaged = options.averaged && fs::exists(average);
  model::load_weights(*run.model, run.averaged ? average : run.checkpoint);
  if (options.sparsity != Sparsity::kOff) {
    run.sparsity = make_controller(run.config, {.seed = static_cast<std::uint64_t>(run.config.train.seed)});
  }
  load_sparsity(run.checkpoint, run.sparsity.get());
  run.source = data::make_source(run.config.data, format_of(run.config), options.warn);
  return run;
}

}  // namespace reel::train
