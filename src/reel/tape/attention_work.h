// The work of attention as it is written down, for everybody who runs its kernels: here and the ring.
#pragma once

#include "reel/attention/attention.h"
#include "reel/base/work.h"

namespace reel::tape {

// Forward; no lists: all keys.
inline work::Attention attention_work(const attention::Shape& s, const lists::ListsView& lists,
                                      work::Attention::Kind kind = work::Attention::Kind::kSelf) {
  return {.kind = kind,
          .batch = s.batch,
          .heads = s.heads,
          .queries = s.queries,
          .keys = s.keys,
          .head_dim = s.head_dim,
          .pairs = lists ? lists.pairs() : s.batch * s.heads * s.queries * s.keys,
          .groups = lists ? lists.groups() : 0};
}

inline work::Attention backward_of(work::Attention forward) {
  forward.direction = work::Attention::Direction::kBackward;
  return forward;
}

}  // namespace reel::tape
