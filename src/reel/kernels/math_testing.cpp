#include "reel/kernels/math_testing.h"

#include "reel/base/error.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/math_testing.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/math-inl.h"
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

template <class F>
HWY_INLINE void Map(const float* x, float* y, std::size_t n, const F& f) {
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE { Store(f(Load(x + i, extent)), y + i, extent); });
}

void ExpArray(const float* x, float* y, std::size_t n) {
  Map(x, y, n, [](VF v) REEL_INLINE { return Exp(v); });
}
void LogArray(const float* x, float* y, std::size_t n) {
  Map(x, y, n, [](VF v) REEL_INLINE { return Log(v); });
}
void TanhArray(const float* x, float* y, std::size_t n) {
  Map(x, y, n, [](VF v) REEL_INLINE { return Tanh(v); });
}
void ErfArray(const float* x, float* y, std::size_t n) {
  Map(x, y, n, [](VF v) REEL_INLINE { return Erf(v); });
}
void SigmoidArray(const float* x, float* y, std::size_t n) {
  Map(x, y, n, [](VF v) REEL_INLINE { return Sigmoid(v); });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(ExpArray);
HWY_EXPORT(LogArray);
HWY_EXPORT(TanhArray);
HWY_EXPORT(ErfArray);
HWY_EXPORT(SigmoidArray);

void exp(std::span<const float> x, std::span<float> y) {
  REEL_CHECK(x.size() == y.size());
  REEL_DISPATCH(ExpArray)(x.data(), y.data(), x.size());
}
void log(std::span<const float> x, std::span<float> y) {
  REEL_CHECK(x.size() == y.size());
  REEL_DISPATCH(LogArray)(x.data(), y.data(), x.size());
}
void tanh(std::span<const float> x, std::span<float> y) {
  REEL_CHECK(x.size() == y.size());
  REEL_DISPATCH(TanhArray)(x.data(), y.data(), x.size());
}
void erf(std::span<const float> x, std::span<float> y) {
  REEL_CHECK(x.size() == y.size());
  REEL_DISPATCH(ErfArray)(x.data(), y.data(), x.size());
}
void sigmoid(std::span<const float> x, std::span<float> y) {
  REEL_CHECK(x.size() == y.size());
  REEL_DISPATCH(SigmoidArray)(x.data(), y.data(), x.size());
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
