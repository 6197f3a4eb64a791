// Self-attention over tokens that are cut over the ranks of a sequence group: Ulysses x Ring.
//
//   own tokens, all heads ──all-to-all in the ulysses group──► tokens of the group, some heads
//                         ──ring_attention (ring.h)──► ──all-to-all──► own tokens, all heads
//
// Any factorisation works, heads and tokens need not divide: a rank may have no tokens or no heads. A rank needs the
// lists of what it computes alone, its share.
#pragma once

#include "reel/lists/view.h"
#include "reel/parallel/shard.h"
#include "reel/parallel/team.h"

namespace reel::parallel {

// What a rank computes: heads [first_head, last_head) for queries [first_query, last_query), over all keys.
struct Share {
  std::int64_t first_head = 0, last_head = 0, first_query = 0, last_query = 0;
  lists::ListsView of(const lists::ListsView& whole) const;  // lists of all heads and queries: those of the share
};
// `tokens` is cut over team.sequence(); `heads` are those of the model.
Share share_of(Team& team, const layout::Cut& tokens, std::int64_t heads);
// What rank `rank` of the sequence group computes.
Share share_of(Team& team, int rank, const layout::Cut& tokens, std::int64_t heads);

// q, k, v [batch, own tokens, heads, head_dim]; `tokens` is cut over team.sequence(). `lists` are of these batch items,
// of the heads and queries of share_of(team, tokens, heads) and of all keys; {} on every rank: all keys.
Tensor attention(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v, const layout::Cut& tokens,
                 const lists::ListsView& lists = {});

// The same for sequences of which every rank has whole ones, other ranks others (ulysses-both): `items` (axis 0) is cut
// over the ulysses group. `lists` are of all heads and all items, one rank after another. It sends what need not be
// sent; it is what systems do that do not tell one axis from the other.
Tensor attention_of_items(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v,
                          const layout::Cut& items, const lists::ListsView& lists = {});

}  // namespace reel::parallel
