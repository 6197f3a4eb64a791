#include "reel/parallel/attention.h"

#include "reel/base/error.h"
#include "reel/parallel/ring.h"
#include "reel/tape/operations.h"

namespace reel::parallel {

lists::ListsView Share::of(const lists::ListsView& whole) const {
  return whole.some_heads(first_head, last_head).some_queries(first_query, last_query);
}

Share share_of(Team& team, const layout::Cut& tokens, std::int64_t heads) {
  return share_of(team, team.sequence().rank(), tokens, heads);
}

Share share_of(Team& team, int rank, const layout::Cut& tokens, std::int64_t heads) {
  const int per_group = team.ulysses().size(), u = rank % per_group, first = rank - u;
  const layout::Cut cut = layout::even_cut(heads, per_group);
  return {cut.begin(u), cut.end(u), tokens.begin(first), tokens.end(first + per_group - 1)};
}

Tensor attention(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v, const layout::Cut& tokens,
                 const lists::ListsView& lists) {
  const int per_group = team.ulysses().size(), rings = team.ring().size();
  REEL_CHECK(tokens.parts() == per_group * rings);
  const layout::Cut heads = layout::even_cut(q.dim(2), per_group);
  const layout::Cut within = layout::some_parts(tokens, team.ring().rank() * per_group, per_group);
  layout::Cut blocks;  // of the ring
  for (int r = 0; r < rings; ++r) blocks.starts.push_back(tokens.end((r + 1) * per_group - 1));

  const auto to_heads = [&](const Tensor& x) { return switch_shard(tape, team.ulysses(), x, 1, within, 2, heads); };
  const Tensor hq = to_heads(q), hk = to_heads(k), hv = to_heads(v);
  const Tensor out = rings > 1 ? ring_attention(tape, team.ring(), hq, hk, hv, blocks, lists)
                               : tape::attention(tape, hq, hk, hv, lists);
  return switch_shard(tape, team.ulysses(), out, 2, heads, 1, within);
}

Tensor attention_of_items(Tape& tape, Team& team, const Tensor& q, const Tensor& k, const Tensor& v,
                          const layout::Cut& items, const lists::ListsView& lists) {
  const layout::Cut heads = layout::even_cut(q.dim(2), team.ulysses().size());
  const int u = team.ulysses().rank();
  const lists::ListsView own = lists.some_heads(heads.begin(u), heads.end(u));
  const auto to_heads = [&](const Tensor& x) { return switch_shard(tape, team.ulysses(), x, 0, items, 2, heads); };
  const Tensor hq = to_heads(q), hk = to_heads(k), hv = to_heads(v);
  return switch_shard(tape, team.ulysses(), tape::attention(tape, hq, hk, hv, own), 2, heads, 0, items);
}

}  // namespace reel::parallel
