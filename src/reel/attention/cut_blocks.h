// How attention is cut into pieces of work: by shape and lists alone, never by the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/attention/attention.h"

namespace reel::attention {

// Most queries that are computed together. More of them read K and V less often, which counts when neighbours use the
// shared cache: 4096 tokens of d = 64 run at 82 (128 queries), 84 (256), 86 GFLOP/s (512) forward, and 83, 87, 83
// backward, whose packed queries take five times the room.
constexpr std::int64_t kForwardQueries = 512, kBackwardQueries = 256;

// Consecutive queries of one head with the same keys.
struct Block {
  std::int64_t b, h;
  std::int64_t first, count;  // queries
  std::int64_t group;         // index of their list; -1: all keys
  std::int64_t tokens;        // keys
};

// A run of blocks of one head that one thread computes.
struct Unit {
  std::int64_t first, last;  // blocks
  std::int64_t part;         // which part of its head this is, from 0 (backward)
  double cost;
  // Number of ranges of keys, processed in turn so that their rows stay in the cache; backward copies each range. 0:
  // all keys at once, where they are.
  std::int64_t ranges = 0;
};

struct Blocks {
  std::vector<Block> blocks;  // by batch item, head, query; blocks without keys included
  std::vector<Unit> units;    // most expensive first; those within about a fifth of each other by head
};

// Throws Error for shapes, views or lists that do not fit each other.
void check(const Input& in, const lists::ListsView& lists);
void check_shape(const Shape& shape);
void check_memory(const char* name, const float* data);
void check_view(const char* name, ConstView view, const Shape& shape, std::int64_t rows);

Blocks cut_forward(const Shape& shape, const lists::ListsView& lists);

// In backward a head is cut into parts only when it is a large share of all work, since every part but the first needs
// its own dK and dV: 16 parts in all, none below kLeastPairsPerKey pairs a key. The keys of a part come in ranges whose
// rows of K, V, dK and dV stay in the cache.
Blocks cut_backward(const Shape& shape, const lists::ListsView& lists);

}  // namespace reel::attention
