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

void SiluGateRange(const float* a, const float* b, float* y, std::size_t n) {
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    Store(hn::Mul(Silu::Value(Load(a + i, extent)), Load(b + i, extent)), y + i, extent);
  });
}

void SiluGateBackwardRange(const float* a, const float* b, const float* dy, float* da, float* db, std::size_t n) {
  const DF d;
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF x = Load(a + i, extent), g = Load(dy + i, extent), one = hn::Set(d, 1.0f), s = Sigmoid(x);
    const VF slope = hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
    const VF to_a = hn::Mul(hn::Mul(g, Load(b + i, extent)), slope), to_b = hn::Mul(g, hn::Mul(x, s));
    Store(to_a, da + i, extent);
    Store(to_b, db + i, extent);
  });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationBackwardRange);
HWY_EXPORT(SiluGateRange);
HWY_EXPORT(SiluGateBackwardRange);

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

void silu_gate(std::span<const float> a, std::span<const float> b, std::span<float> y, Threads& threads) {
  REEL_CHECK(a.size() == b.size() && a.size() == y.size());
  for_chunks(a.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(SiluGateRange)(a.data() + i, b.data() + i, y.data() + i, end - i);
  });
}

void silu_gate_backward(std::span<const float> a, std::span<const float> b, std::span<const float> dy,
                        std::span<float> da, std::span<float> db, Threads& threads) {
  REEL_CHECK(a.size() == b.size() && a.size() == dy.size() && a.size() == da.size() && a.size() == db.size());
  for_chunks(a.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(SiluGateBackwardRange)
    (a.data() + i, b.data() + i, dy.data() + i, da.data() + i, db.data() + i, end - i);
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
