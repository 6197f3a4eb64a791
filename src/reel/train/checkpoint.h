// Checkpoints: everything a run needs to continue, bit for bit.
//
//   RUN/checkpoints/step-000200/   config.json, diffusion_pytorch_model.safetensors   the model, as diffusers reads it
//                                  ema.safetensors         averaged weights, where they are kept, under the same names
//                                  optimizer.safetensors   first.<parameter>, second.<parameter>
//                                  sparsity.safetensors    where attention is sparse: predictor, profile, decisions
//                                  state.json              step, position in the data, ...
//   RUN/latest                     a symbolic link to the newest whole one
//
// A checkpoint is written into a folder of another name, synced to the disk and renamed; then the link is moved, then
// old ones go. So whatever happens (kill, full disk, power), RUN/latest names a whole checkpoint. Random numbers need
// no state: each is drawn by step and sample.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "reel/train/trainer.h"

namespace reel::train {

struct RunState {
  std::int64_t step = 0;
  std::int64_t data_position = 0;
  std::int64_t skipped = 0;         // steps whose loss or gradients were not finite
  std::int64_t skipped_in_row = 0;  // of these, the last ones without a good one between
  double wall_seconds = 0;
};

// On many ranks all of them call both. What is cut over them comes together on rank 0, which writes: a checkpoint does
// not depend on the number of ranks, and a run may be resumed on another number of them.
void save_checkpoint(const std::string& run, Trainer& trainer, const RunState& state, std::int64_t keep);

// Nothing where there is no checkpoint. An Error where RUN/latest does not fit the model.
std::optional<RunState> load_checkpoint(const std::string& run, Trainer& trainer);

// The folder RUN/latest names, or "" .
std::string latest_checkpoint(const std::string& run);

// The folders of all whole checkpoints by their steps.
std::map<std::int64_t, std::string> checkpoints_of(const std::string& run);

// Parts of a checkpoint, for those who need no optimizer (trained_run.h): its step, and what it knows about sparsity.
// `controller` stays as it is where the checkpoint knows nothing, since the run turned sparse later; null is allowed.
std::int64_t step_of_checkpoint(const std::string& checkpoint);
void load_sparsity(const std::string& checkpoint, sparsity::Controller* controller);

}  // namespace reel::train
