// A run file: [model], [video], [data], [diffusion], [sparsity], [train], [parallel].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/data/source.h"
#include "reel/diffusion/config.h"
#include "reel/files/settings.h"
#include "reel/layout/cut.h"
#include "reel/model/config.h"
#include "reel/optim/optimizer.h"
#include "reel/parallel/team.h"
#include "reel/sparsity/config.h"

namespace reel::train {

struct VideoConfig {
  std::int64_t frames = 8, height = 32, width = 32;  // of what the model sees: pixels, or latents
  double fps = 8;
};

struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t batch = 4;
  std::int64_t accumulate = 1;
  std::int64_t seed = 0;
  std::int64_t threads = 0;
  bool recompute = false;
  std::int64_t checkpoint_every = 200;
  std::int64_t keep = 2;
  std::int64_t validate_every = 100;
  std::int64_t sample_every = 250;
  std::int64_t sample_steps = 30;
  std::int64_t samples = 4;
  double guidance = 3;
  std::string start_from;
};

struct ParallelConfig {
  layout::Degrees plan;
  double wait_seconds = 300;
};

struct RunConfig {
  model::ModelConfig model;
  VideoConfig video;
  data::DataConfig data;
  std::int64_t text_tokens = 0, text_width = 0;  // of the data
  diffusion::DiffusionConfig diffusion;
  sparsity::SparsityConfig sparsity;
  TrainConfig train;
  optim::OptimConfig optim;
  ParallelConfig parallel;
  std::string text;  // the file with its overrides, as TOML
};

void visit(Settings& settings, RunConfig& config);

// What the clips of a run look like: as the model takes them.
data::Format format_of(const RunConfig& config);

// The clips of a pass cut over `groups` data-parallel groups of ranks. An Error where there are fewer clips than
// groups: which numbers would work.
layout::Cut clips_of(const RunConfig& config, int groups);

// Reads a run file with overrides ("train.steps=2000"), checks it as a whole, and fills in what follows from the data
// (channels, text). An Error names file, line and key. `checkpoint` of a run that is resumed or sampled from
// describes the model where the run began with another one (train.start_from), which may be gone by now.
RunConfig load_run(const std::string& path, const std::vector<std::string>& overrides,
                   const std::string& checkpoint = "");
RunConfig parse_run(const Toml& toml, const std::string& checkpoint = "");

}  // namespace reel::train
