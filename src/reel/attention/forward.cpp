#include <cmath>
#include <cstring>
#include <limits>

#include "reel/attention/attention.h"
#include "reel/attention/blocks.h"
#include "reel/attention/cut_blocks.h"
#include "reel/base/sized.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/attention/forward.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

// Scores of a step, in L1: 24 KB (AVX2), 32 KB (AVX-512) at most. Blocks of many queries take many keys and few queries
// at a time, so that sums are loaded and stored less often. A group of up to 64 takes all its queries at once, if their
// panels are small too: rows of keys and values, which lie apart, come from L2 once then, not twice; and it leaves half
// of L1 to them. On one Zen 3 core, 192 keys x 32 queries against 96 x 64: 84.8 and 82.0 GFLOP/s dense; with lists of
// 10 % 73.2 and 76.8 (d = 64), 72.4 and 68.9 (d = 128, whose panels of 64 queries take 32 KB). Against these, on two
// cores in turn, lists with 64 x 64 run 0.96-1.05 times as fast (d = 64), with 128 x 32 0.99-1.07 times (d = 72, 96,
// 128); dense would be 2 % slower. On a Xeon 128 x 64 dense and 64 x 64 with lists: 64 instead of 128 keys run 1.01 (d
// = 64) and 1.03 times (d = 128) as fast with lists, 0.97-0.98 times dense.
struct StepShape {
  std::size_t keys, queries;
};
constexpr std::size_t kFewQueries = HWY_MAX_BYTES == 64 ? 64 : 2 * kWidth,
                      kGroupStepKeys = HWY_MAX_BYTES == 64 ? 64 : 128, kMostStepKeys = HWY_MAX_BYTES == 64 ? 128 : 192;
constexpr std::size_t kStepScores = kMostStepKeys * kFewQueries;
HWY_INLINE StepShape StepOf(std::size_t queries, std::size_t d) {
  if (queries > kGroupQueries) return {kMostStepKeys, kFewQueries};
  const std::size_t together = d <= 64 ? std::max(kGroupQueries, kFewQueries) : kFewQueries;
  return {kGroupStepKeys * kFewQueries / together, together};
}
constexpr float kNoScore = -1e30f;  // below every score, and finite: its difference to a score is a number

// p = 2^(p - largest) for n rows of one vector, returns the sum per lane.
HWY_INLINE VF ExpAndSum(float* p, std::size_t stride, std::size_t n, VF largest) {
  const DF df;
  VF s0 = hn::Zero(df), s1 = hn::Zero(df);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    VF e[4];
    Unroll<4>([&](auto j) REEL_INLINE { e[j] = hn::Sub(hn::LoadU(df, p + (i + sized(j)) * stride), largest); });
    Exp2(e);
    Unroll<4>([&](auto j) REEL_INLINE { hn::StoreU(e[j], df, p + (i + sized(j)) * stride); });
    s0 = hn::Add(s0, hn::Add(e[0], e[1]));
    s1 = hn::Add(s1, hn::Add(e[2], e[3]));
  }
  for (; i < n; ++i) {
    const VF e = Exp2(hn::Sub(hn::LoadU(df, p + i * stride), largest));
    hn::StoreU(e, df, p + i * stride);
    s0 = hn::Add(s0, e);
  }
  return hn::Add(s0, s1);
}

struct ForwardScratch {
  std::size_t dv;                          // head_dim in whole vectors, in floats
  float *qt, *out;                         // Q^T panels and output of the block
  float *scores, *keys, *values;           // of a step: scores; rows of keys and values, where they are copied
  float *largest, *before, *sum, *factor;  // per query
  static std::size_t Floats(std::size_t d) {
    return kForwardQueries * d + kWidth * d + kStepScores + 2 * kMostStepKeys * Panels(d) * kWidth +
           kForwardQueries * Vectors(d) * kLanes + 4 * (kForwardQueries + kWidth);
  }
  ForwardScratch(float* p, std::size_t d) : dv(Vectors(d) * kLanes) {
    qt = p, p += (kForwardQueries + kWidth) * d;
    scores = p, p += kStepScores;
    for (float** each : {&keys, &values}) *each = p, p += kMostStepKeys * Panels(d) * kWidth;
    out = p, p += kForwardQueries * dv;
    for (float** each : {&largest, &before, &sum, &factor}) *each = p, p += kForwardQueries + kWidth;
  }
};

// Scores, running maximum, exponentials and sums of one step for queries [q0, q0 + count); rows of scores are `stride`
// floats apart.
HWY_INLINE void StepScores(const ForwardScratch& s, const float* const* k_rows, std::size_t n, Ahead& ahead,
                           std::size_t d, std::size_t q0, std::size_t count, std::size_t stride) {
  const DF df;
  const std::size_t padded = Vectors(count) * kLanes;
  std::memcpy(s.before + q0, s.largest + q0, padded * sizeof(float));
  ForRowTiles(n, [&](auto rows, std::size_t i) REEL_INLINE {
    ForPanels(Vectors(count), [&](auto vectors, std::size_t first) REEL_INLINE {
      const std::size_t t = first * kLanes, at = q0 + t;
      ScoreTile<rows, vectors>(k_rows + i, d, s.qt + at * d, s.scores + i * stride + t, stride, s.largest + at, ahead);
    });
  });
  for (std::size_t t = 0; t < padded; t += kLanes) {
    const std::size_t at = q0 + t;
    const VF largest = hn::LoadU(df, s.largest + at);
    const VF factor = Exp2(hn::Sub(hn::LoadU(df, s.before + at), largest));
    const VF sum = ExpAndSum(s.scores + t, stride, n, largest);
    hn::StoreU(factor, df, s.factor + at);
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(df, s.sum + at), sum), df, s.sum + at);
  }
}

void ForwardOneBlock(const ForwardBlock& b, float* scratch) {
  const DF df;
  const ForwardScratch s(scratch, b.d);
  PackTransposed(b.q, b.queries, b.d, b.scale * kLog2E, s.qt);
  for (std::size_t i = 0; i < Vectors(b.queries) * kLanes; ++i) s.largest[i] = kNoScore, s.sum[i] = 0;
  std::memset(s.out, 0, b.queries * s.dv * sizeof(float));
  if (!b.first_range) {
    std::memcpy(s.largest, b.largest, b.queries * sizeof(float));
    std::memcpy(s.sum, b.sum, b.queries * sizeof(float));
    for (std::size_t i = 0; i < b.queries; ++i) std::memcpy(s.out + i * s.dv, b.out[i], b.d * sizeof(float));
  }

  const StepShape shape = StepOf(b.queries, b.d);
  const float* rows[2][2 * kMostStepKeys];  // of this step and the next: keys, and the values after them
  const auto take = [&](const KeyRun& keys, std::size_t step, const float** side) {
    const Steps cut(keys.count, shape.keys);
    const std::size_t first = cut.First(step), n = cut.Size(step);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t key = keys(first + i);
      side[i] = b.k[key], side[n + i] = b.v[key];
    }
    return n;
  };
  const Steps steps(b.keys.count, shape.keys);
  std::size_t n = steps.count > 0 ? take(b.keys, 0, rows[0]) : 0;
  for (std::size_t step = 0; step < steps.count; ++step) {
    const float **const now = rows[step % 2], **const then = rows[step % 2 ^ 1];
    const std::size_t following = step + 1 < steps.count ? take(b.keys, step + 1, then)
                                  : b.next.count > 0     ? take(b.next, 0, then)
                                                         : 0;
    Ahead ahead(then, 2 * following, b.d, b.queries);
    ahead.Expect(RowTiles(n) * Panels(b.queries), b.d);
    ahead.Expect(RowTiles(b.queries) * Panels(b.d), n);
    PlaceRows(now, n, b.k.stride, b.d, s.keys);
    const VectorRows values(now + n, n, b.v.stride, b.d, s.values);
    for (std::size_t q0 = 0; q0 < b.queries; q0 += shape.queries) {
      const std::size_t count = std::min(shape.queries, b.queries - q0);
      StepScores(s, now, n, ahead, b.d, q0, count, shape.queries);
      ForColumns(b.d, [&](auto vectors, std::size_t c) REEL_INLINE {
        ForRowTiles(count, [&](auto rows_of_tile, std::size_t i) REEL_INLINE {
          ColumnsTile<rows_of_tile, vectors>(n, s.scores + i, shape.queries, values.At<vectors>(c), s.factor + q0 + i,
                                             s.out + (q0 + i) * s.dv + c, s.dv, ahead);
        });
      });
    }
    b.poll();
    n = following;
  }
  if (!b.last_range) {
    std::memcpy(b.largest, s.largest, b.queries * sizeof(float));
    std::memcpy(b.sum, s.sum, b.queries * sizeof(float));
    for (std::size_t i = 0; i < b.queries; ++i) std::memcpy(b.out[i], s.out + i * s.dv, b.d * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < b.queries; ++i) {
    float* out = b.out[i];
    if (b.no_keys) {
      std::memset(out, 0, b.d * sizeof(float));
      b.lse[i] = -std::numeric_limits<float>::infinity();
      continue;
    }
    const VF inverse = hn::Set(df, 1.0f / s.sum[i]);
    for (std::size_t c = 0; c < b.d; c += kLanes) {
      StoreFirst(hn::Mul(inverse, hn::LoadU(df, s.out + i * s.dv + c)), out + c, b.d - c);
    }
    b.lse[i] = kLn2 * (s.largest[i] + std::log2(s.sum[i]));
  }
}

std::size_t ForwardFloats(std::size_t d) { return ForwardScratch::Floats(d); }

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::attention {

HWY_EXPORT(ForwardOneBlock);
HWY_EXPORT(ForwardFloats);

namespace {

// Rows of K and V are read by one block of queries after the other. From kLeastReads blocks on they are copied side by
// side once, if they are not and the copies are small, instead of by every block (PlaceRows).
constexpr double kLeastReads = 8, kMostCopies = 256.0 * (1 << 20);  // of a row on average; bytes
constexpr std::int64_t kCopyRows = 512;                             // of a chunk

Input side_by_side(const Input& in, const Blocks& work, Threads& threads) {
  const Shape& s = in.shape;
  const std::int64_t rows = s.batch * s.heads * s.keys, floats = rows * s.head_dim;
  double reads = 0;
  for (const Block& block : work.blocks) reads += static_cast<double>(block.tokens);
  const bool whole_vectors = s.head_dim % 16 == 0;  // others are copied by every block for their ends
  if ((in.k.row == s.head_dim && in.v.row == s.head_dim) || !whole_vectors ||
      reads < kLeastReads * static_cast<double>(rows) || 8.0 * static_cast<double>(floats) > kMostCopies) {
    return in;
  }
  float* const copies = threads.shared_scratch(2 * sized(floats));
  const MutableView k = head_major(copies, s.keys, s.heads, s.head_dim),
                    v = head_major(copies + floats, s.keys, s.heads, s.head_dim);
  const std::int64_t parts = (s.keys + kCopyRows - 1) / kCopyRows;
  threads.run(s.batch * s.heads * parts, [&](std::int64_t chunk, int) {
    const std::int64_t b = chunk / parts / s.heads, h = chunk / parts % s.heads, first = chunk % parts * kCopyRows;
    for (std::int64_t i = first; i < std::min(first + kCopyRows, s.keys); ++i) {
      std::memcpy(k.at(b, h, i), in.k.at(b, h, i), sized(s.head_dim) * sizeof(float));
      std::memcpy(v.at(b, h, i), in.v.at(b, h, i), sized(s.head_dim) * sizeof(float));
    }
  });
  return {s, in.q, k, v, in.scale};
}

}  // namespace

void forward(const Input& given, const lists::ListsView& lists, const Partial& result, Threads& threads) {
  check(given, lists);
  const Shape& shape = given.shape;
  check_view("out", result.out, shape, shape.queries);
  if (shape.batch * shape.heads * shape.queries == 0) return;
  check_memory("lse", result.lse);
  const Blocks work = cut_forward(shape, lists);
  const Input in = side_by_side(given, work, threads);
  const auto d = sized(shape.head_dim);
  const auto compute = REEL_DISPATCH(ForwardOneBlock);
  const std::size_t floats = REEL_DISPATCH(ForwardFloats)(d);
  threads.run(static_cast<std::int64_t>(work.units.size()), [&](std::int64_t chunk, int thread) {
    BlockLists block_lists(lists);
    const Poll poll{&threads, thread};
    const Unit& unit = work.units[sized(chunk)];
    const Block &start = work.blocks[sized(unit.first)], &end = work.blocks[sized(unit.last - 1)];
    const std::int64_t b = start.b, h = start.h;
    const auto queries = sized(end.first + end.count - start.first);
    const auto keys = sized(shape.keys), ranges = sized(std::max<std::int64_t>(1, unit.ranges));
    float* scratch = threads.scratch(thread, floats + (ranges > 1 ? 2 * queries : 0));
    for (std::size_t range = 0; range < ranges; ++range) {
      const std::size_t from = keys * range / ranges, to = keys * (range + 1) / ranges;
      const auto rows = [&](const ConstView& view) { return rows_of(view, b, h, static_cast<std::int64_t>(from)); };
      for (std::int64_t i = unit.first; i < unit.last; ++i) {
        const Block& block = work.blocks[sized(i)];
        const auto [run, next] = block_lists.runs(work, unit, i);
        float* const largest = scratch + floats + (block.first - start.first);
        compute({rows_of(in.q, b, h, block.first), rows(in.k), rows(in.v), sized(block.count), d, in.scale,
                 run.within(from, to), next.within(from, to), rows_of(result.out, b, h, block.first),
                 result.lse + (b * shape.heads + h) * shape.queries + block.first, largest, largest + queries,
                 range == 0, range + 1 == ranges, block.tokens == 0, poll},
                scratch);
      }
    }
  });
}

}  // namespace reel::attention
#endif  // HWY_ONCE
