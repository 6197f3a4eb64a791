#include "reel/kernels/activation.h"

#include "reel/base/error.h"
#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/activation.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/activation-inl.h"
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

void ActivationRange(Activation kind, const float* x, float* y, std::size_t n) {
  WithActivation(kind, [&](auto a) REEL_INLINE {
    ForVectors(n, [&](std::size_t i, auto extent)
                      REEL_INLINE { Store(decltype(a)::Value(Load(x + i, extent)), y + i, extent); });
  });
}

void ActivationBackwardRange(Activation kind, const float* x, const float* dy, float* dx, std::size_t n) {
  WithActivation(kind, [&](auto a) REEL_INLINE {
    ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
      const VF slope = decltype(a)::Slope(Load(x + i, extent));
      Store(hn::Mul(slope, Load(dy + i, extent)), dx + i, extent);
    });
  });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationBackwardRange);

void activation(Activation kind, std::span<const float> x, std::span<float> y, Threads& threads) {
  REEL_CHECK(x.size() == y.size());
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(ActivationRange)(kind, x.data() + i, y.data() + i, end - i);
  });
}

void activation_backward(Activation kind, std::span<const float> x, std::span<const float> dy, std::span<float> dx,
                         Threads& threads) {
  REEL_CHECK(x.size() == dy.size() && x.size() == dx.size());
  for_chunks(x.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(ActivationBackwardRange)(kind, x.data() + i, dy.data() + i, dx.data() + i, end - i);
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
