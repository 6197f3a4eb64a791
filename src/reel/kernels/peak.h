// What this CPU can do at most, measured: the 100 % of every share of peak.
#pragma once

#include <cstddef>

#include "reel/base/threads.h"

namespace reel::kernels {

// f32 multiply-adds from registers with the chosen instruction set, all threads of the team at once, in flop/s. The
// best of several short runs: `seconds` in all.
double peak_flops(Threads& threads, double seconds = 0.2);

// Bytes per second that all threads together read from (sum of an array), write to (fill) or copy (bytes read +
// written) arrays of `bytes` per thread: in a cache where they fit there.
enum class Access { kRead, kWrite, kCopy };
double bandwidth(Access traffic, std::size_t bytes, Threads& threads, double seconds = 0.1);

}  // namespace reel::kernels
