// Attention over keys that travel around a ring of ranks.
//
// Each rank of the ring has some of the tokens, consecutive ones: their queries, keys and values, of the same heads.
// Queries stay; a block of keys and values visits one rank after another. At each step a rank attends to the part of
// its lists that lies in the block at hand, and merges what it got with what it has (attention::merge). While it
// computes, the next block comes in and the present one goes on: two buffers, polled by the compute loops. A block goes
// only as far as somebody needs it.
//
// Backward sends keys and values around again. The gradients of a block begin at the first of the other ranks that
// needs it and follow one step behind; each rank adds its share in the order of the ring (the same bits each time), and
// the last one sends them home. A rank computes half of its own block first, while the first keys arrive, and half
// last, while its gradients come home.
#pragma once

#include <memory>

#include "reel/lists/key_lists.h"
#include "reel/parallel/shard.h"

namespace reel::parallel {

// q, k, v [batch, own tokens, heads, head_dim]; `tokens` is cut over the ring. `lists` (null: all keys) are of these
// heads, of all queries and all keys of the ring, with single tokens as entries.
Tensor ring_attention(Tape& tape, comm::Comm& ring, const Tensor& q, const Tensor& k, const Tensor& v,
                      const layout::Cut& tokens, const std::shared_ptr<const lists::KeyLists>& lists);

}  // namespace reel::parallel
