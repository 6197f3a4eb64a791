// A training run in a folder: `reel train`.
//
//   RUN/config.toml        the run file with its overrides
//   RUN/metrics.jsonl      a line a step;  RUN/tensorboard/ the same for TensorBoard
//   RUN/sparsity.jsonl     where attention is sparse: what is known about each head, a line a profile step
//   RUN/checkpoints/, RUN/latest   (checkpoint.h)
//   RUN/samples/           strips of sampled clips (PNG, frames side by side): step-000250-0.png
//   RUN/report.html        everything on one page
//
// Ctrl-C and SIGTERM save a checkpoint and stop. A step whose loss or gradients are not finite is skipped and logged;
// after five in a row the run stops. Only one process trains in a folder, or the ranks of one mpirun: rank 0 writes and
// talks for all.
#pragma once

#include <string>

#include "reel/comm/comm.h"
#include "reel/train/config.h"

namespace reel::train {

struct RunOptions {
  std::string folder;
  bool resume = false;  // goes on where there is a checkpoint, starts where there is none
  // Where to write the lists of keys of every dump_every-th step, if anywhere: step-000100.layer-7.safetensors.
  std::string dump_masks = "";
  std::int64_t dump_every = 100;
  comm::Comm* world = nullptr;  // null: one rank
};

// True: all steps were done. False: it was stopped by a signal, a checkpoint is there.
bool run(const RunConfig& config, const RunOptions& options);

}  // namespace reel::train
