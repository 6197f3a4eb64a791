#include <cstring>
#include <limits>
#include <utility>

#include "reel/attention/attention.h"
#include "reel/attention/blocks.h"
#include "reel/attention/cut_blocks.h"
#include "reel/base/sized.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/attention/backward.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

// Floats from one row of P or dS to the next: an odd number of cache lines, or the columns that dQ reads would lie in a
// few sets of L1 (36 rows of 256 queries in 4 of 64 sets, nine lines for eight ways).
constexpr std::size_t ScoreStride(std::size_t queries) {
  constexpr std::size_t kLine = 16;
  return ((queries + kLine - 1) / kLine | 1) * kLine;
}

// A step computes the scores of all queries of the block, so that a dK or dV row is read and written once per step
// (tiles of 32 queries: 77-80 instead of 83-86 GFLOP/s at d = 64 on Zen 3). P and dS of a step take about 38 KB each,
// in L2: 36 keys of 256 queries; small groups take more keys, up to kGradKeys.
constexpr std::size_t kGradKeys = 96, kGradScores = 36 * ScoreStride(kBackwardQueries);
static_assert(kBackwardQueries % kWidth == 0 && 2 * kGradScores >= 256 * kWidth);

struct BackwardScratch {
  std::size_t dv;                     // head_dim in whole vectors, in floats
  float *qt, *doutt, *q, *dout, *dq;  // of the block: panels of Q^T, dO^T, Q and dO; dQ
  float *p, *ds, *k, *v, *panels;     // of a step: P, dS, rows of keys and values that are copied, panels of keys
  float *lse2, *delta;                // per query
  static std::size_t Floats(std::size_t d) {
    return 2 * kBackwardQueries * (d + Panels(d) * kWidth) + 2 * kGradScores + kGradKeys * Panels(d) * kWidth +
           (2 * kGradKeys + kBackwardQueries) * Vectors(d) * kLanes + 2 * kBackwardQueries;
  }
  BackwardScratch(float* at, std::size_t d) : dv(Vectors(d) * kLanes) {
    for (float** each : {&qt, &doutt}) *each = at, at += kBackwardQueries * d;
    for (float** each : {&q, &dout}) *each = at, at += kBackwardQueries * Panels(d) * kWidth;
    for (float** each : {&p, &ds}) *each = at, at += kGradScores;
    for (float** each : {&k, &v}) *each = at, at += kGradKeys * dv;
    panels = at, at += kGradKeys * Panels(d) * kWidth;
    dq = at, at += kBackwardQueries * dv;
    for (float** each : {&lse2, &delta}) *each = at, at += kBackwardQueries;
  }
};

// Delta is summed as dP is, product by product: a query with one key has dP = delta to the bit, and dS = 0.
HWY_INLINE void SumDelta(const BackwardBlock& b, const BackwardScratch& s) {
  const DF df;
  for (std::size_t i = 0; i < b.queries; i += kWidth) {
    float* out = s.p;  // and dS behind it: not in use before the first step
    TransposePanel(b.out[i], b.out.stride, std::min(kWidth, b.queries - i), b.d, 1.0f, out);
    VF sum[kTileVectors];
    Unroll<kTileVectors>([&](auto v) REEL_INLINE { sum[v] = hn::Zero(df); });
    for (std::size_t c = 0; c < b.d * kWidth; c += kWidth) {
      Unroll<kTileVectors>([&](auto v) REEL_INLINE {
        const std::size_t at = c + v * kLanes;
        sum[v] = hn::MulAdd(hn::LoadU(df, out + at), hn::LoadU(df, s.doutt + i * b.d + at), sum[v]);
      });
    }
    Unroll<kTileVectors>([&](auto v) REEL_INLINE { hn::StoreU(sum[v], df, s.delta + i + v * kLanes); });
  }
  if (b.delta != nullptr) std::memcpy(b.delta, s.delta, b.queries * sizeof(float));
}

// Packs the queries' side of a block once for all steps.
HWY_INLINE void PackBlock(const BackwardBlock& b, const BackwardScratch& s) {
  PackTransposed(b.q, b.queries, b.d, b.scale * kLog2E, s.qt);
  PackTransposed(b.dout, b.queries, b.d, b.scale, s.doutt);  // dS carries the scale
  PackPanels([&](std::size_t i) REEL_INLINE { return b.q[i]; }, b.queries, b.d, s.q);
  PackPanels([&](std::size_t i) REEL_INLINE { return b.dout[i]; }, b.queries, b.d, s.dout);
  for (std::size_t i = 0; i < Vectors(b.queries) * kLanes; ++i) s.lse2[i] = 0;
  if (b.first_range) {
    SumDelta(b, s);
  } else {
    std::memcpy(s.delta, b.delta, b.queries * sizeof(float));
  }
  for (std::size_t i = 0; i < b.queries; ++i) {
    // A query that saw no key at all has probability 0 everywhere; exp2(score + inf) would not.
    s.lse2[i] = b.lse[i] == -std::numeric_limits<float>::infinity() ? 1e30f : b.lse[i] * kLog2E;
  }
  std::memset(s.dq, 0, b.queries * s.dv * sizeof(float));
}

struct StepRows {
  const float *k[kGradKeys], *v[kGradKeys];
  float *dk[kGradKeys], *dv[kGradKeys];
};

// Rows [first, last) into L1, `floats` of each from `offset` on: those of the next tile. They are in L2 at best, and a
// tile of 64 queries is too short to wait for them (10 % of 8192 keys on two cores of a Xeon: 235 without, 241
// GFLOP/s with it; rows that are only read gain nothing by it).
HWY_INLINE void FetchForWriting(float* const* rows, std::size_t first, std::size_t last, std::size_t offset,
                                std::size_t floats) {
  for (std::size_t r = first; r < last; ++r) {
    for (std::size_t c = 0; c < floats; c += 16) __builtin_prefetch(rows[r] + offset + c, 1);
  }
}

HWY_INLINE void AddRows(std::size_t n, std::size_t queries, std::size_t d, const float* a, std::size_t a_stride,
                        const float* panels, float* const* out, Ahead& ahead) {
  // Rows outside, columns inside: a dK row is touched once (the other way round 53 instead of 70 GFLOP/s with token
  // lists).
  ForRowTiles(n, [&](auto rows, std::size_t i) REEL_INLINE {
    ForColumns(d, [&](auto vectors, std::size_t c) REEL_INLINE {
      FetchForWriting(out, i + rows, std::min(i + 2 * rows, n), c, vectors * kLanes);
      RowsTile<rows, vectors>(queries, a + i * a_stride, a_stride, panels + c * queries, out + i, c, d - c, ahead);
    });
  });
}

// Rows that tiles of a step ask for: those of the keys of the next step, in the order in which it needs them, and its
// share of the rows of q, dO and dQ of the next block, which lie apart and come from memory where a head is long.
class RowsAhead {
 public:
  void AddKeys(const StepRows& rows, std::size_t n) {
    Add(rows.k, n), Add(rows.v, n), Add(rows.dv, n), Add(rows.dk, n);
  }
  void AddQueries(const BackwardBlock& b, std::size_t first, std::size_t last) {
    for (std::size_t i = b.queries + first; i < b.queries + last; ++i) {
      for (const float* row : {b.q[i], b.dout[i], static_cast<const float*>(b.dq[i])}) rows_[count_++] = row;
    }
  }
  Ahead During(const BackwardBlock& b) const { return {rows_, count_, b.d, b.queries}; }

 private:
  template <class Row>
  void Add(const Row* rows, std::size_t n) {
    std::copy_n(rows, n, rows_ + count_);
    count_ += n;
  }
  const float* rows_[4 * kGradKeys + 3 * kBackwardQueries];
  std::size_t count_ = 0;
};

void BackwardOneBlock(const BackwardBlock& b, float* scratch) {
  if (b.keys.count == 0 && !b.first_range) return;  // nothing to add
  const DF df;
  const BackwardScratch s(scratch, b.d);
  const std::size_t stride = ScoreStride(b.queries);
  const std::size_t step_keys = std::min(kGradKeys, kGradScores / stride);
  PackBlock(b, s);
  StepRows sides[2];  // this step and the next
  const auto take = [&](const KeyRun& keys, std::size_t step, StepRows& rows) {
    const Steps cut(keys.count, step_keys);
    const std::size_t first = cut.First(step), n = cut.Size(step);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t key = keys(first + i);
      rows.k[i] = b.k[key], rows.v[i] = b.v[key], rows.dk[i] = b.dk[key], rows.dv[i] = b.dv[key];
    }
    return n;
  };
  const Steps steps(b.keys.count, step_keys);
  std::size_t n = steps.count > 0 ? take(b.keys, 0, sides[0]) : 0;
  for (std::size_t step = 0; step < steps.count; ++step) {
    StepRows& now = sides[step % 2];
    StepRows& then = sides[step % 2 ^ 1];
    const std::size_t following = step + 1 < steps.count ? take(b.keys, step + 1, then)
                                  : b.next.count > 0     ? take(b.next, 0, then)
                                                         : 0;
    RowsAhead rows_ahead;
    rows_ahead.AddKeys(then, following);
    rows_ahead.AddQueries(b, b.next_queries * step / steps.count, b.next_queries * (step + 1) / steps.count);
    Ahead ahead = rows_ahead.During(b);
    ahead.Expect(2 * RowTiles(n) * Panels(b.queries), b.d);
    ahead.Expect(2 * RowTiles(n) * Panels(b.d), b.queries);
    ahead.Expect(RowTiles(b.queries) * Panels(b.d), n);
    PlaceRows(now.k, n, b.k.stride, b.d, s.k);
    PlaceRows(now.v, n, b.v.stride, b.d, s.v);
    ForPanels(Vectors(b.queries), [&](auto vectors, std::size_t first) REEL_INLINE {
      const std::size_t t = first * kLanes;
      ForRowTiles(n, [&](auto rows, std::size_t i) REEL_INLINE {
        ProbabilityTile<rows, vectors>(now.k + i, b.d, s.qt + t * b.d, s.lse2 + t, s.p + i * stride + t, stride, ahead);
      });
      ForRowTiles(n, [&](auto rows, std::size_t i) REEL_INLINE {
        ScoreGradTile<rows, vectors>(now.v + i, b.d, s.doutt + t * b.d, s.delta + t, s.p + i * stride + t,
                                     s.ds + i * stride + t, stride, ahead);
      });
    });
    AddRows(n, b.queries, b.d, s.p, stride, s.dout, now.dv, ahead);
    AddRows(n, b.queries, b.d, s.ds, stride, s.q, now.dk, ahead);
    const VectorRows keys(now.k, n, s.dv, s.dv, s.panels);
    ForColumns(b.d, [&](auto vectors, std::size_t c) REEL_INLINE {
      ForRowTiles(b.queries, [&](auto rows, std::size_t i) REEL_INLINE {
        ColumnsTile<rows, vectors>(n, s.ds + i, stride, keys.At<vectors>(c), nullptr, s.dq + i * s.dv + c, s.dv, ahead);
      });
    });
    b.poll();
    n = following;
  }
  for (std::size_t i = 0; i < b.queries; ++i) {
    for (std::size_t c = 0; c < b.d; c += kLanes) {
      float* dq = b.dq[i] + c;
      const VF sum = hn::LoadU(df, s.dq + i * s.dv + c);
      StoreFirst(b.accumulate ? hn::Add(LoadFirst(dq, b.d - c), sum) : sum, dq, b.d - c);
    }
  }
}

std::size_t BackwardFloats(std::size_t d) { return BackwardScratch::Floats(d); }

// to += from, row by row.
void AddRange(const Rows<float>& to, const Rows<const float>& from, std::size_t rows, std::size_t d) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c < d; c += kLanes) {
      StoreFirst(hn::Add(LoadFirst(to[i] + c, d - c), LoadFirst(from[i] + c, d - c)), to[i] + c, d - c);
    }
  }
}

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::attention {

HWY_EXPORT(BackwardOneBlock);
HWY_EXPORT(BackwardFloats);
HWY_EXPORT(AddRange);

namespace {

// dK and dV of the parts of a head beyond the first, which writes to the result itself: [parts - 1][2][keys][head_dim].
struct PartGradients {
  std::int64_t b = 0, h = 0, parts = 1;
  float* data = nullptr;
};

void clear(const Rows<float>& rows, std::int64_t count, std::size_t d) {
  for (std::int64_t i = 0; i < count; ++i) std::memset(rows[sized(i)], 0, d * sizeof(float));
}

// Keys of one head: rows of K and V, and of their gradients.
struct KeySide {
  Rows<const float> k, v;
  Rows<float> dk, dv;
};

// A range of keys with rows side by side: in place where they are, else copies, and gradients of their own that begin
// at zero. `memory` has room for 4 * count * d floats.
KeySide range_of(const KeySide& head, std::size_t first, std::size_t count, std::size_t d, float* memory) {
  const auto inputs = [&](const Rows<const float>& rows) -> Rows<const float> {
    if (rows.stride == d) return {rows[first], d};
    float* const copy = std::exchange(memory, memory + count * d);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(copy + i * d, rows[first + i], d * sizeof(float));
    return {copy, d};
  };
  const auto gradients = [&](const Rows<float>& rows) -> Rows<float> {
    if (rows.stride == d) return {rows[first], d};
    float* const zero = std::exchange(memory, memory + count * d);
    std::memset(zero, 0, count * d * sizeof(float));
    return {zero, d};
  };
  return {inputs(head.k), inputs(head.v), gradients(head.dk), gradients(head.dv)};
}

}  // namespace

void backward(const Input& in, const lists::ListsView& lists, const Gradients& g, Threads& threads) {
  check(in, lists);
  const Shape& shape = in.shape;
  check_view("dout", g.dout, shape, shape.queries);
  check_view("out", g.out, shape, shape.queries);
  check_view("dq", g.dq, shape, shape.queries);
  check_view("dk", g.dk, shape, shape.keys);
  check_view("dv", g.dv, shape, shape.keys);
  const std::int64_t heads = shape.batch * shape.heads;
  if (heads == 0) return;
  if (shape.queries > 0) check_memory("lse", g.lse);
  const auto d = sized(shape.head_dim);
  const Blocks work = cut_backward(shape, lists);

  const std::size_t size = sized(shape.keys) * d;
  std::vector<PartGradients> parts(sized(heads));
  for (const Unit& unit : work.units) {
    const Block& block = work.blocks[sized(unit.first)];
    PartGradients& head = parts[sized(block.b * shape.heads + block.h)];
    head = {block.b, block.h, std::max(head.parts, unit.part + 1), nullptr};
  }
  std::size_t extra = 0;
  for (const PartGradients& head : parts) extra += sized(head.parts - 1) * 2 * size;
  float* memory_of_parts = threads.shared_scratch(extra);
  for (PartGradients& head : parts) {
    head.data = memory_of_parts;
    memory_of_parts += sized(head.parts - 1) * 2 * size;
  }

  const auto compute = REEL_DISPATCH(BackwardOneBlock);
  const auto add = REEL_DISPATCH(AddRange);
  const std::size_t floats = REEL_DISPATCH(BackwardFloats)(d);
  threads.run(static_cast<std::int64_t>(work.units.size()), [&](std::int64_t chunk, int thread) {
    BlockLists block_lists(lists);
    const Poll poll{&threads, thread};
    const Unit& unit = work.units[sized(chunk)];
    const auto ranges = sized(std::max<std::int64_t>(1, unit.ranges));
    const std::size_t most = unit.ranges > 0 ? sized(shape.keys) / ranges + 1 : 0;
    const Block &start = work.blocks[sized(unit.first)], &end = work.blocks[sized(unit.last - 1)];
    const auto queries = sized(end.first + end.count - start.first);
    float* scratch = threads.scratch(thread, floats + 4 * most * d + (ranges > 1 ? queries : 0));
    float* deltas = ranges > 1 ? scratch + floats + 4 * most * d : nullptr;
    const std::int64_t b = start.b, h = start.h;
    KeySide head{rows_of(in.k, b, h, 0), rows_of(in.v, b, h, 0), rows_of(g.dk, b, h, 0), rows_of(g.dv, b, h, 0)};
    if (unit.part > 0) {
      const PartGradients& own = parts[sized(b * shape.heads + h)];
      head.dk = {own.data + sized(unit.part - 1) * 2 * size, d};
      head.dv = {head.dk.data + size, d};
    }
    if (unit.part > 0 || !g.accumulate) {
      clear(head.dk, shape.keys, d), clear(head.dv, shape.keys, d);
    }
    for (std::size_t range = 0; range < ranges; ++range) {
      const std::size_t keys = sized(shape.keys), from = keys * range / ranges, to = keys * (range + 1) / ranges;
      const KeySide side = unit.ranges > 0 ? range_of(head, from, to - from, d, scratch + floats) : head;
      for (std::int64_t i = unit.first; i < unit.last; ++i) {
        const Block& block = work.blocks[sized(i)];
        const auto [run, next] = block_lists.runs(work, unit, i);
        const std::int64_t next_queries = i + 1 < unit.last ? work.blocks[sized(i + 1)].count : 0;
        compute(
            {rows_of(in.q, b, h, block.first), side.k, side.v, rows_of(g.out, b, h, block.first),
             rows_of(g.dout, b, h, block.first), sized(block.count), d, sized(next_queries), in.scale,
             run.within(from, to), next.within(from, to), g.lse + (b * shape.heads + h) * shape.queries + block.first,
             rows_of(g.dq, b, h, block.first), side.dk, side.dv, g.accumulate || range > 0,
             deltas == nullptr ? nullptr : deltas + (block.first - start.first), range == 0, poll},
            scratch);
      }
      if (side.dk.data != head.dk[from]) add({head.dk[from], head.dk.stride}, {side.dk.data, d}, to - from, d);
      if (side.dv.data != head.dv[from]) add({head.dv[from], head.dv.stride}, {side.dv.data, d}, to - from, d);
    }
  });
  if (work.units.empty() && !g.accumulate) {  // no queries: the gradients of the keys are zero
    for (std::int64_t i = 0; i < heads; ++i) {
      clear(rows_of(g.dk, i / shape.heads, i % shape.heads, 0), shape.keys, d);
      clear(rows_of(g.dv, i / shape.heads, i % shape.heads, 0), shape.keys, d);
    }
  }

  // Parts are added in order, in ranges of keys.
  constexpr std::int64_t kRange = 512;
  const std::int64_t ranges = (shape.keys + kRange - 1) / kRange;
  std::erase_if(parts, [](const PartGradients& head) { return head.parts == 1; });
  threads.run(static_cast<std::int64_t>(parts.size()) * ranges, [&](std::int64_t chunk, int) {
    const PartGradients& head = parts[sized(chunk / ranges)];
    const std::int64_t first = chunk % ranges * kRange;
    const auto count = sized(std::min(kRange, shape.keys - first));
    const std::size_t at = sized(first) * d;
    for (std::int64_t part = 0; part + 1 < head.parts; ++part) {
      const float* dk = head.data + sized(part) * 2 * size + at;
      add(rows_of(g.dk, head.b, head.h, first), {dk, d}, count, d);
      add(rows_of(g.dv, head.b, head.h, first), {dk + size, d}, count, d);
    }
  });
}

}  // namespace reel::attention
#endif  // HWY_ONCE
