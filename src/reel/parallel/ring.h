// Attention over keys that travel around a ring of ranks.
//
// Each rank of the ring has some of the tokens, consecutive ones: their queries, keys and values, of the same heads.
// Queries stay; a block of keys and values visits one rank after another. At each step a rank attends to the part of
// its lists that lies in the block at hand, and merges what it got with what it has (attention::merge). While it
// computes, the next block comes in and the present one is passed on: two buffers, polled by the compute loops. A block
// travels only as far as somebody needs it: a rank knows its own lists alone, so the ranks first tell each other which
// blocks they need (one byte for each rank and block; nothing where all keys are attended to). A ghost cannot be told
// and assumes that everybody needs everything.
//
// Backward sends keys and values around again. The gradients of a block begin at the first of the other ranks that
// needs it and follow one step behind; each rank adds its share in the order of the ring (the same bits each time), and
// the last one sends them home. A rank computes half of its own block first, while the first keys arrive, and half
// last, while its gradients come home.
#pragma once

#include "reel/lists/view.h"
#include "reel/parallel/shard.h"

namespace reel::parallel {

// q, k, v [batch, own tokens, heads, head_dim]; `tokens` is cut over the ring. `lists` are of these heads, of the
// queries of this rank and of all keys of the ring; {} on every rank: all keys.
Tensor ring_attention(Tape& tape, comm::Comm& ring, const Tensor& q, const Tensor& k, const Tensor& v,
                      const layout::Cut& tokens, const lists::ListsView& lists);

}  // namespace reel::parallel
