#include "reel/kernels/softmax.h"

#include <cmath>

#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/math-inl.h"
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float RowMax(const float* x, std::size_t n) {
  const DF d;
  VF a = hn::Set(d, kMinusInfinity), b = a;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + kLanes));
  }
  ForVectors(n - i, [&](std::size_t j, auto extent)
                        REEL_INLINE { a = hn::Max(a, Fill(Load(x + i + j, extent), kMinusInfinity, extent)); });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

float SoftmaxRow(const float* x, float* y, std::size_t n) {
  const DF d;
  const float largest = RowMax(x, n);
  // Nothing to subtract from a row of -inf: its exponentials are zeros, and NaN among them (which Max overlooks) stays.
  const VF top = hn::Set(d, largest == kMinusInfinity ? 0.0f : largest);
  const float sum = SumRow(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF e = Exp(hn::Sub(Load(x + i, extent), top));
    Store(e, y + i, extent);
    return e;
  });
  if (sum == 0.0f) return kMinusInfinity;
  const VF factor = hn::Set(d, 1.0f / sum);
  ForVectors(
      n, [&](std::size_t i, auto extent) REEL_INLINE { Store(hn::Mul(Load(y + i, extent), factor), y + i, extent); });
  return largest + std::log(sum);
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(SoftmaxRow);

namespace {

template <class Work>  // void(row)
void for_rows(std::size_t rows, std::size_t width, Threads& threads, const Work& work) {
  for_row_chunks(rows, width, threads, [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) work(i);
  });
}

}  // namespace

void softmax(ConstRows x, Rows y, float* lse, Threads& threads) {
  REEL_CHECK(same_shape(x, y));
  for_rows(x.rows, x.width, threads, [&](std::size_t i) {
    const float value = REEL_DISPATCH(SoftmaxRow)(x.row(i), y.row(i), x.width);
    if (lse != nullptr) lse[i] = value;
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
