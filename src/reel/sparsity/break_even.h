// From which share of keys on a dense head is faster than a sparse one, choice of keys included, on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "reel/base/threads.h"
#include "reel/sparsity/config.h"

namespace reel::sparsity {

// f32, as checkpoints keep it: a run that is resumed decides with the same numbers.
struct BreakEven {
  float share = 0.5f;
  float tile_cost = 1;  // time of a key in lists of whole tiles, over that of a key in lists of tokens
};

// Forward and backward of one head for each thread, rank 16, 16 scored queries a group: seconds. `tokens` are whole
// groups of 64.
BreakEven measure_break_even(std::int64_t tokens, std::int64_t head_dim, Threads& threads);

// The same, looked up in the CSV file `cache` of this machine, or measured and added to that file. Lengths are
// rounded up to a power of two from 1,024 to 8,192, beyond which the share hardly changes. Where the cache
// cannot be written, the measurement is used all the same.
BreakEven break_even_for(const std::string& cache, std::int64_t tokens, std::int64_t head_dim, Threads& threads);

// What a run decides by: the share that the run file names, where it names one; `otherwise` where it does not.
BreakEven break_even_of(const SparsityConfig& config, const BreakEven& otherwise);

// What a new run decides by. Where the run file names no share and decisions depend on it, it is that of this machine
// (above). A run without a budget divides it by sparsity.worth; a budget that was asked for is used wherever it is
// faster.
BreakEven break_even_of(const SparsityConfig& config, const std::string& cache, std::int64_t tokens,
                        std::int64_t head_dim, Threads& threads);

}  // namespace reel::sparsity
