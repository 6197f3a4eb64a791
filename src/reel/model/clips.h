// One pass whose clips are shared by groups of ranks, where a plan leaves more than one group (data parallel).
#pragma once

#include "reel/model/denoiser.h"

namespace reel::model {

// The forward pass of a batch that is whole on every rank of context.team, as its output is: every group takes some of
// the clips, of `context.lists` too. Gradients of the weights are partial: their sum over all ranks is the gradient. An
// Error where a group would have no clip: which numbers would work.
Tensor forward_clips(Denoiser& model, Context& context, const Input& input);

}  // namespace reel::model
