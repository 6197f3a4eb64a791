// What a forward pass is run for, and where it stands in the run. A pass is described once, before it begins, and
// handed down to whatever decides by it; nobody changes it.
#pragma once

#include <cstdint>

#include "reel/layout/cut.h"

namespace reel::sparsity {

struct Pass {
  enum class Kind { kTraining, kValidation, kSampling, kStudy };

  Kind kind = Kind::kStudy;
  std::int64_t step = 0;         // optimizer steps that the weights have seen
  std::int64_t accumulated = 0;  // training: passes of the same step before this one
  // Sampling: passes of one stream (0: with text, 1: without) follow each other in denoising steps.
  int stream = 0;
  // Training: how the clips of the pass are cut over the data-parallel groups of ranks, which decide together. In other
  // passes every group is on its own.
  layout::Cut clips = {};

  bool training() const { return kind == Kind::kTraining; }
};

}  // namespace reel::sparsity
