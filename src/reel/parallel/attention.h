// Self-attention over tokens that are cut over the ranks of a sequence group: Ulysses x Ring.
//
//   own tokens, all heads ──all-to-all in the ulysses group──► tokens of the group, some heads
//                         ──ring_attention (ring.h)──► ──all-to-all──► own tokens, all heads
//
// Any factorisation works, heads and tokens need not divide: a rank may have no tokens or no heads.
#pragma once

#include <memory>

#include "reel/lists/key_lists.h"
#include "reel/parallel/shard.h"
#include "reel/parallel/team.h"

namespace reel::parallel {

// q, k, v [batch, own tokens, heads, head_dim]; `tokens` is cut over team.sequence(). `lists` (null: all keys) are of
// the whole: all heads, queries and keys of these batch items.
Tensor attention(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v, const layout::Cut& tokens,
                 const std::shared_ptr<const lists::KeyLists>& lists = nullptr);

// The same for sequences of which every rank has whole ones, other ranks others: `items` (axis 0) is cut over the
// ulysses group. It sends what need not be sent; it is what systems do that do not tell one axis from the other.
Tensor attention_of_items(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v,
                          const layout::Cut& items);

}  // namespace reel::parallel
