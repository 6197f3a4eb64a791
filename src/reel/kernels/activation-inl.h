// Activations of a vector, compiled once per instruction set (include after hwy/foreach_target.h).
#if defined(REEL_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_ACTIVATION_INL_H_
#undef REEL_KERNELS_ACTIVATION_INL_H_
#else
#define REEL_KERNELS_ACTIVATION_INL_H_
#endif

#include "reel/kernels/activation.h"
#include "reel/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// Value(x) and Slope(x), the derivative.
struct Identity {
  static HWY_INLINE VF Value(VF x) { return x; }
  static HWY_INLINE VF Slope(VF) { return hn::Set(DF(), 1.0f); }
};

// (1 + tanh(u)) / 2 = sigmoid(2u): one exponential and one division.
struct GeluTanh {
  static constexpr float kTwice = 1.5957691216f, kCubic = 0.044715f;  // 2 sqrt(2/pi)
  // s = sigmoid(2u). The cube overflows for |x| > 1e12; its infinity is the right argument.
  static HWY_INLINE VF Share(VF x, VF x2) {
    const DF d;
    return Sigmoid(hn::Mul(x, hn::MulAdd(x2, hn::Set(d, kTwice * kCubic), hn::Set(d, kTwice))));
  }
  static HWY_INLINE VF Value(VF x) { return hn::Mul(x, Share(x, hn::Mul(x, x))); }
  static HWY_INLINE VF Slope(VF x) {
    const DF d;
    // From |x| = 16 on the derivative is 0 or 1; clamping there keeps 0 * inf out.
    x = hn::Max(hn::Set(d, -16.0f), hn::Min(hn::Set(d, 16.0f), x));
    const VF x2 = hn::Mul(x, x), s = Share(x, x2);
    const VF du = hn::MulAdd(x2, hn::Set(d, 3.0f * kTwice * kCubic), hn::Set(d, kTwice));
    return hn::MulAdd(hn::Mul(hn::Mul(x, du), s), hn::Sub(hn::Set(d, 1.0f), s), s);
  }
};

struct GeluErf {
  static HWY_INLINE VF Share(VF x) {  // the normal distribution function
    const DF d;
    const VF half = hn::Set(d, 0.5f);
    return hn::MulAdd(half, Erf(hn::Mul(x, hn::Set(d, 0.70710678f))), half);
  }
  static HWY_INLINE VF Value(VF x) { return hn::Mul(x, Share(x)); }
  static HWY_INLINE VF Slope(VF x) {
    const DF d;
    x = hn::Max(hn::Set(d, -16.0f), hn::Min(hn::Set(d, 16.0f), x));
    const VF density = hn::Mul(hn::Set(d, 0.39894228f), Exp(hn::Mul(hn::Set(d, -0.5f), hn::Mul(x, x))));
    return hn::MulAdd(x, density, Share(x));
  }
};

struct Silu {
  static HWY_INLINE VF Value(VF x) { return hn::Mul(x, Sigmoid(x)); }
  static HWY_INLINE VF Slope(VF x) {
    const DF d;
    const VF one = hn::Set(d, 1.0f), s = Sigmoid(x);
    return hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
  }
};

// f(GeluTanh()) and so on: the choice is made outside of the loops.
template <class F>
HWY_INLINE void WithActivation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::kNone:
      return f(Identity());
    case Activation::kGeluTanh:
      return f(GeluTanh());
    case Activation::kGeluErf:
      return f(GeluErf());
    case Activation::kSilu:
      return f(Silu());
  }
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
