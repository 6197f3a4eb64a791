// A training run in a folder: `reel train`.
//
//   RUN/config.toml        the run file with its overrides
//   RUN/metrics.jsonl      a line a step;  RUN/tensorboard/ the same for TensorBoard
//   RUN/sparsity.jsonl     where attention is sparse: what is known about each head, a line a profile step
//   RUN/checkpoints/, RUN/latest   (checkpoint.h)
//   RUN/samples/           strips of sampled clips (PNG, frames side by side): step-000250-0.png
//   RUN/report.html        everything on one page
//
// A listener (listener.h) is told what happens and may stop the run, which then saves a checkpoint first. A step whose
// loss or gradients are not finite is skipped; after five in a row the run fails. Only one process trains in a folder,
// or the ranks of one mpirun, of which rank 0 writes.
#pragma once

#include <string>

#include "reel/comm/comm.h"
#include "reel/train/listener.h"

namespace reel::train {

struct RunOptions {
  std::string folder;
  bool resume = false;  // continues from the last checkpoint, or starts where there is none
  // Folder for the lists of keys of every dump_every-th step: step-000100.layer-7.safetensors. "": they are not
  // written.
  std::string dump_masks = "";
  std::int64_t dump_every = 100;
  comm::Comm* world = nullptr;   // null: one rank
  Listener* listener = nullptr;  // null: nobody listens
};

// True: all steps are done. False: the listener stopped the run.
bool run(const RunConfig& config, const RunOptions& options);

}  // namespace reel::train
