// Initial weights.
//
// standard   as the families were published: Xavier-uniform matrices, zero biases, unit norms, the output layer zero
// (so
//            that the first prediction is 0), scale-shift tables N(0, 1 / width), gates as they come; STDiT3's temporal
//            blocks begin as identities.
// mimetic    for small models that must learn structured attention in minutes (Trockman & Kolter 2023, and
//            measurements of our own: docs/decisions/0006-mimetic-initialisation.md): W_k = W_q, q and k share a bias
//            ~ N(0, 0.3^2), so that near tokens attend to each other from the start. Heads without rotary positions get
//            no such bias: they look up content.
//
// qk_gain multiplies the initial norms of q and k, gate_bias is added to the gates of the tables. Every tensor is drawn
// from (seed, its name): adding a layer changes no other tensor.
#pragma once

#include "reel/model/denoiser.h"

namespace reel::model {

void initialise(Denoiser& model);

}  // namespace reel::model
