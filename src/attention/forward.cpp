#include <cmath>
#include <cstring>
#include <limits>

#include "attention/attention.h"
#include "attention/blocks.h"
#include "attention/work.h"
#include "kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

// Keys of a step and queries of a score tile: 96 x 32 scores are 12 KB and stay in L1 beside a value panel (AVX2).
// 48 to 384 keys and 16 to 64 queries differ by less than the noise.
constexpr std::size_t kStepKeys = 96;
constexpr std::size_t kScoreQueries = 2 * kWidth;
constexpr float kNoScore = -1e30f;  // below every score, and finite: its difference to a score is a number

// p = 2^(p - largest) for n rows of one vector, returns the sum per lane.
HWY_INLINE VF ExpAndSum(float* p, std::size_t stride, std::size_t n, VF largest) {
  const DF df;
  VF s0 = hn::Zero(df), s1 = hn::Zero(df);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    VF e[4];
    Unroll<4>([&](auto j) REEL_INLINE {
      e[j] = hn::Sub(hn::LoadU(df, p + (i + static_cast<std::size_t>(j)) * stride), largest);
    });
    Exp2(e);
    Unroll<4>([&](auto j) REEL_INLINE { hn::StoreU(e[j], df, p + (i + static_cast<std::size_t>(j)) * stride); });
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
  float *qt, *scores, *values, *out;       // Q^T panels, scores of a step, value panels of a step, output of the block
  float *largest, *before, *sum, *factor;  // per query
  static std::size_t Floats(std::size_t d) {
    return kBlockQueries * d + kWidth * d + kStepKeys * kScoreQueries + kStepKeys * Panels(d) * kWidth +
           kBlockQueries * Vectors(d) * kLanes + 4 * (kBlockQueries + kWidth);
  }
  ForwardScratch(float* p, std::size_t d) : dv(Vectors(d) * kLanes) {
    qt = p, p += (kBlockQueries + kWidth) * d;
    scores = p, p += kStepKeys * kScoreQueries;
    values = p, p += kStepKeys * Panels(d) * kWidth;
    out = p, p += kBlockQueries * dv;
    for (float** each : {&largest, &before, &sum, &factor}) *each = p, p += kBlockQueries + kWidth;
  }
};

// Scores, running maximum, exponentials and sums of one step for queries [q0, q0 + count).
HWY_INLINE void StepScores(const ForwardScratch& s, const float* const* k_rows, std::size_t n, const Ahead& ahead,
                           std::size_t d, std::size_t q0, std::size_t count) {
  const DF df;
  ForPanels(Vectors(count), [&](auto vectors, std::size_t first) REEL_INLINE {
    constexpr int N = vectors;
    const std::size_t t = first * kLanes, at = q0 + t;
    std::memcpy(s.before + at, s.largest + at, N * kLanes * sizeof(float));
    ForRowTiles(n, [&](auto rows, std::size_t i) REEL_INLINE {
      if (at == 0) Prefetch<rows>(ahead, i, d);
      ScoreTile<rows, N>(k_rows + i, d, s.qt + at * d, s.scores + i * kScoreQueries + t, kScoreQueries, s.largest + at);
    });
    for (std::size_t v = 0; v < N * kLanes; v += kLanes) {
      const VF largest = hn::LoadU(df, s.largest + at + v);
      const VF factor = Exp2(hn::Sub(hn::LoadU(df, s.before + at + v), largest));
      const VF sum = ExpAndSum(s.scores + t + v, kScoreQueries, n, largest);
      hn::StoreU(factor, df, s.factor + at + v);
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(df, s.sum + at + v), sum), df, s.sum + at + v);
    }
  });
}

void ForwardOneBlock(const ForwardBlock& b, float* scratch) {
  const DF df;
  const ForwardScratch s(scratch, b.d);
  PackTransposed(b.q, b.queries, b.d, b.scale * kLog2E, s.qt);
  for (std::size_t i = 0; i < Vectors(b.queries) * kLanes; ++i) s.largest[i] = kNoScore, s.sum[i] = 0;
  std::memset(s.out, 0, b.queries * s.dv * sizeof(float));

  const float *k_rows[2][kStepKeys], *v_rows[2][kStepKeys];  // this step and the next
  const auto take = [&](std::size_t first, int side) {
    const std::size_t n = first < b.keys.count ? std::min(kStepKeys, b.keys.count - first) : 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t key = b.keys(first + i);
      k_rows[side][i] = b.k[key];
      v_rows[side][i] = b.v[key];
    }
    return n;
  };
  int side = 0;
  std::size_t n = take(0, side);
  for (std::size_t k0 = 0; k0 < b.keys.count; side ^= 1) {
    const std::size_t next = take(k0 + n, side ^ 1);
    const Ahead ahead = next >= n ? Ahead{k_rows[side ^ 1], v_rows[side ^ 1]} : Ahead{};
    PackPanels([&](std::size_t i) REEL_INLINE { return v_rows[side][i]; }, n, b.d, s.values);
    for (std::size_t q0 = 0; q0 < b.queries; q0 += kScoreQueries) {
      const std::size_t count = std::min(kScoreQueries, b.queries - q0);
      StepScores(s, k_rows[side], n, ahead, b.d, q0, count);
      ForPanels(Vectors(b.d), [&](auto vectors, std::size_t first) REEL_INLINE {
        const std::size_t c = first * kLanes;
        ForRowTiles(count, [&](auto rows, std::size_t i) REEL_INLINE {
          ColumnsTile<rows, vectors>(n, s.scores + i, kScoreQueries, s.values + c * n, s.factor + q0 + i,
                                     s.out + (q0 + i) * s.dv + c, s.dv);
        });
      });
    }
    k0 += n, n = next;
  }
  for (std::size_t i = 0; i < b.queries; ++i) {
    float* out = b.out[i];
    if (b.keys.count == 0) {
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

void run_forward(const Input& in, const KeyLists* lists, const Partial& result, Threads& threads) {
  check(in, lists);
  const Shape& shape = in.shape;
  check_view("out", result.out, shape, shape.queries);
  if (shape.batch * shape.heads * shape.queries == 0) return;
  if (result.lse == nullptr) throw Error("attention: lse has no memory");
  const Work work = cut_forward(shape, lists);
  const auto d = static_cast<std::size_t>(shape.head_dim);
  const auto compute = REEL_DISPATCH(ForwardOneBlock);
  const std::size_t floats = REEL_DISPATCH(ForwardFloats)(d);
  std::vector<BlockMemory> memory(static_cast<std::size_t>(threads.count()));
  threads.run(static_cast<std::int64_t>(work.units.size()), [&](std::int64_t chunk, int thread) {
    BlockMemory& mine = memory[static_cast<std::size_t>(thread)];
    float* scratch = threads.scratch(thread, floats);
    const Unit& unit = work.units[static_cast<std::size_t>(chunk)];
    for (std::int64_t i = unit.first; i < unit.last; ++i) {
      const Block& block = work.blocks[static_cast<std::size_t>(i)];
      const auto [b, h] = std::pair(block.b, block.h);
      compute(
          {rows_of(in.q, b, h, block.first), rows_of(in.k, b, h, 0), rows_of(in.v, b, h, 0),
           static_cast<std::size_t>(block.count), d, in.scale, mine.key_run(block, lists),
           rows_of(result.out, b, h, block.first), result.lse + (b * shape.heads + h) * shape.queries + block.first},
          scratch);
    }
  });
}

}  // namespace

void forward(const Input& in, const KeyLists& lists, const Partial& result, Threads& threads) {
  run_forward(in, &lists, result, threads);
}
void forward_dense(const Input& in, const Partial& result, Threads& threads) {
  run_forward(in, nullptr, result, threads);
}

}  // namespace reel::attention
#endif  // HWY_ONCE
