// The memory that lists take, known before a run.
#pragma once

#include <cstdint>

#include "reel/lists/order.h"
#include "reel/predict/predictor.h"
#include "reel/sparsity/config.h"

namespace reel::sparsity {

// Bytes of the lists of all layers at once, as they are until backward is through with them, and of the averages of
// mode static: at most. `batch` clips have tokens in the given order. `limit` is what a controller that decides by
// itself is given for lists (Controller::Options::lists_bytes).
double lists_bytes_of(const SparsityConfig& config, const predict::ModelHeads& shape, const lists::TokenOrder& order,
                      std::int64_t batch, double limit);

}  // namespace reel::sparsity
