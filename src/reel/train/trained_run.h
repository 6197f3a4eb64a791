// A trained run, opened to sample from it or to study it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reel/data/source.h"
#include "reel/model/denoiser.h"
#include "reel/sparsity/controller.h"
#include "reel/train/config.h"

namespace reel::train {

struct OpenOptions {
  bool averaged = true;  // the averaged weights, where the run keeps an average
  enum class Sparsity {
    kAsTrained,
    kOff,    // all keys
    kAlways  // a dense run gets a controller, too: it puts tokens in order and finds every head dense
  } sparsity = Sparsity::kAsTrained;
  data::Warn warn;  // gets the warnings of `source`
};

struct TrainedRun {
  RunConfig config;
  std::string checkpoint;  // the folder that RUN/latest names
  std::int64_t step = 0;   // of the checkpoint
  bool averaged = false;   // whether the weights are averaged ones
  std::unique_ptr<model::Denoiser> model;
  std::unique_ptr<sparsity::Controller> sparsity;  // as the checkpoint left it; null: all keys
  std::unique_ptr<data::Source> source;            // in the format that the model takes
};

// Opens the last checkpoint of the run in `folder`, without an optimizer. An Error where the folder holds no run, the
// run has no checkpoint yet, or the checkpoint is damaged or belongs to another model.
TrainedRun open_run(const std::string& folder, const OpenOptions& options = {});

}  // namespace reel::train
