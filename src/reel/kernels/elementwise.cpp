#include "reel/kernels/elementwise.h"

#include <atomic>

#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/elementwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

void AddRange(const float* x, const float* y, float* out, std::size_t n) {
  ForVectors(n, [&](std::size_t i, auto extent)
                    REEL_INLINE { Store(hn::Add(Load(x + i, extent), Load(y + i, extent)), out + i, extent); });
}

void ScaleRange(float a, const float* x, float* out, std::size_t n) {
  const VF factor = hn::Set(DF(), a);
  ForVectors(
      n, [&](std::size_t i, auto extent) REEL_INLINE { Store(hn::Mul(factor, Load(x + i, extent)), out + i, extent); });
}

void AxpyRange(float a, const float* x, float* y, std::size_t n) {
  const VF factor = hn::Set(DF(), a);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    Store(hn::MulAdd(factor, Load(x + i, extent), Load(y + i, extent)), y + i, extent);
  });
}

void DifferenceRange(float a, const float* x, const float* y, float* out, std::size_t n) {  // out = a (x - y)
  const VF factor = hn::Set(DF(), a);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    Store(hn::Mul(factor, hn::Sub(Load(x + i, extent), Load(y + i, extent))), out + i, extent);
  });
}

// Sum of VF f(i, extent): f32 within a block, double over the blocks.
template <class F>
HWY_INLINE double SumBlocks(std::size_t n, const F& f) {
  constexpr std::size_t kBlock = 1024;
  double total = 0.0;
  for (std::size_t block = 0; block < n; block += kBlock) {
    total += SumRow(std::min(kBlock, n - block),
                    [&](std::size_t i, auto extent) REEL_INLINE { return f(block + i, extent); });
  }
  return total;
}

double DotRange(const float* x, const float* y, std::size_t n) {
  return SumBlocks(
      n, [&](std::size_t i, auto extent) REEL_INLINE { return hn::Mul(Load(x + i, extent), Load(y + i, extent)); });
}

double SquaredDistanceRange(const float* x, const float* y, std::size_t n) {
  return SumBlocks(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF v = hn::Sub(Load(x + i, extent), Load(y + i, extent));
    return hn::Mul(v, v);
  });
}

bool AllFiniteRange(const float* x, std::size_t n) {
  const VF zero = hn::Zero(DF());  // 0 x is NaN for NaN and infinities
  return SumRow(n, [&](std::size_t i, auto extent) REEL_INLINE { return hn::Mul(zero, Load(x + i, extent)); }) == 0.0f;
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(AddRange);
HWY_EXPORT(ScaleRange);
HWY_EXPORT(AxpyRange);
HWY_EXPORT(DifferenceRange);
HWY_EXPORT(DotRange);
HWY_EXPORT(SquaredDistanceRange);
HWY_EXPORT(AllFiniteRange);

void add(std::span<const float> x, std::span<const float> y, std::span<float> out, Threads& threads) {
  REEL_CHECK(x.size() == y.size() && x.size() == out.size());
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(AddRange)(x.data() + i, y.data() + i, out.data() + i, end - i);
  });
}

void scale(float a, std::span<const float> x, std::span<float> out, Threads& threads) {
  REEL_CHECK(x.size() == out.size());
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(ScaleRange)(a, x.data() + i, out.data() + i, end - i);
  });
}

void axpy(float a, std::span<const float> x, std::span<float> y, Threads& threads) {
  REEL_CHECK(x.size() == y.size());
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(AxpyRange)(a, x.data() + i, y.data() + i, end - i);
  });
}

void copy_rows(ConstRows x, Rows y, Threads& threads) {
  REEL_CHECK(same_shape(x, y));
  for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) std::copy(x.row(i), x.row(i) + x.width, y.row(i));
  });
}

void column_sums(ConstRows x, float* out, Write write, Threads& threads) {
  sum_rows(1, x.rows, x.width, std::array{Rows(out, 1, x.width)}, write, threads,
           [&](std::size_t first, std::size_t end, const std::array<float*, 1>& sums) {
             for (std::size_t i = first; i < end; ++i) {
               REEL_DISPATCH(AddRange)(x.row(i), sums[0], sums[0], x.width);
             }
           });
}

double dot(std::span<const float> x, std::span<const float> y, Threads& threads) {
  REEL_CHECK(x.size() == y.size());
  return sum_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    return REEL_DISPATCH(DotRange)(x.data() + i, y.data() + i, end - i);
  });
}

double sum_squares(std::span<const float> x, Threads& threads) { return dot(x, x, threads); }

double mean_squared_error(std::span<const float> x, std::span<const float> target, Threads& threads) {
  REEL_CHECK(x.size() == target.size());
  if (x.empty()) return 0.0;
  const double total = sum_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    return REEL_DISPATCH(SquaredDistanceRange)(x.data() + i, target.data() + i, end - i);
  });
  return total / static_cast<double>(x.size());
}

void mean_squared_error_backward(std::span<const float> x, std::span<const float> target, float dloss,
                                 std::span<float> dx, Threads& threads) {
  REEL_CHECK(x.size() == target.size() && x.size() == dx.size());
  const float factor = static_cast<float>(2.0 * dloss / static_cast<double>(x.size()));
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(DifferenceRange)(factor, x.data() + i, target.data() + i, dx.data() + i, end - i);
  });
}

bool any_not_finite(std::span<const float> x, Threads& threads) {
  std::atomic<bool> found = false;
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    if (!REEL_DISPATCH(AllFiniteRange)(x.data() + i, end - i)) found = true;
  });
  return found;
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
