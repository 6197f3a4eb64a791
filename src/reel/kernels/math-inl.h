// Exp, Log, Tanh, Erf, Sigmoid of a vector, compiled once per instruction set (include after hwy/foreach_target.h).
//
// Largest relative error against double libm over every 257th float, measured by math_test.cpp on AVX2 and (without
// FMA) SSE4: exp 9.5e-8, log 8.0e-8, tanh 1.4e-7, erf 9.5e-8, sigmoid 1.4e-7. Half a unit in the last place is 6.0e-8.
//
// NaN gives NaN everywhere; hence the order of the arguments of Min and Max: x86 returns the second one for NaN.
// The exp2 of attention's inner loop, faster and without the ends of the range, is in simd-inl.h.
#if defined(REEL_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_MATH_INL_H_
#undef REEL_KERNELS_MATH_INL_H_
#else
#define REEL_KERNELS_MATH_INL_H_
#endif

#include <limits>

#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// c[0] + c[1] x + ... + c[N-1] x^(N-1)
template <int N>
HWY_INLINE VF Polynomial(VF x, const float (&c)[N]) {
  const DF d;
  VF y = hn::Set(d, c[N - 1]);
  Unroll<N - 1>([&](auto k) REEL_INLINE { y = hn::MulAdd(y, x, hn::Set(d, c[N - 2 - k])); });
  return y;
}

// e^x: inf above 88.72, subnormals below -87.33, 0 below -103.97.
HWY_INLINE VF Exp(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  // e^x = 2^n e^r, |r| <= ln(2)/2. The high part of ln 2 has 9 bits, so n times it is exact without FMA too.
  x = hn::Max(hn::Set(d, -105.0f), hn::Min(hn::Set(d, 89.0f), x));
  const VF magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const VF t = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const VF n = hn::Sub(t, magic);
  VF r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // Taylor's coefficients to degree 7, whose remainder is 5e-9: a minimax fit would save one step.
  static constexpr float kC[] = {1.0f,         1.0f,          1.0f / 2.0f,   1.0f / 6.0f,
                                 1.0f / 24.0f, 1.0f / 120.0f, 1.0f / 720.0f, 1.0f / 5040.0f};
  const VF y = Polynomial(r, kC);
  // In two factors, because 2^n itself may be no normal float.
  const auto power = hn::Sub(hn::BitCast(di, t), hn::BitCast(di, magic));
  const auto half = hn::ShiftRight<1>(power);
  const auto bias = hn::Set(di, 127);
  const VF a = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF b = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(power, half), bias)));
  return hn::Mul(hn::Mul(y, a), b);
}

// Natural logarithm, subnormals included: 0 gives -inf, a negative number NaN, inf inf.
HWY_INLINE VF Log(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const VF scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);  // 2^23
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)): the exponent is counted from the bits of sqrt(1/2).
  const auto kRootHalf = hn::Set(di, 0x3f3504f3);
  const auto offset = hn::Sub(hn::BitCast(di, scaled), kRootHalf);
  const auto exponent = hn::ShiftRight<23>(offset);
  const VF m = hn::BitCast(d, hn::Sub(hn::BitCast(di, scaled), hn::ShiftLeft<23>(exponent)));
  VF e = hn::ConvertTo(d, exponent);
  e = hn::IfThenElse(tiny, hn::Sub(e, hn::Set(d, 23.0f)), e);
  // log(1 + f) = f - f^2/2 + f^3 P(f), P from Cephes' logf; exact leading terms keep the relative error near 1.
  static constexpr float kC[] = {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,
                                 -1.6668057665e-1f, 1.4249322787e-1f,  -1.2420140846e-1f,
                                 1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
  const VF f = hn::Sub(m, hn::Set(d, 1.0f));
  const VF f2 = hn::Mul(f, f);
  VF y = hn::Mul(hn::Mul(Polynomial(f, kC), f), f2);
  y = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, y));
  const VF infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const VF nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);  // inf and NaN stay
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), nan, y);
}

HWY_INLINE VF Sigmoid(VF x) {
  const VF one = hn::Set(DF(), 1.0f);
  return hn::Div(one, hn::Add(one, Exp(hn::Neg(x))));
}

HWY_INLINE VF Tanh(VF x) {
  const DF d;
  const VF one = hn::Set(d, 1.0f), t = hn::Abs(x), s = hn::Mul(x, x);
  const VF large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(Exp(hn::Add(t, t)), one)));
  static constexpr float kC[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f,  // Cephes' tanhf
                                 2.06390887954e-2f, -5.70498872745e-3f};
  const VF small = hn::MulAdd(hn::Mul(x, s), Polynomial(s, kC), x);
  return hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
}

// Norbert Juffa's fit: x + x P(x^2) near zero, 1 - e^(P(|x|)) beyond 475/512.
HWY_INLINE VF Erf(VF x) {
  const DF d;
  const VF one = hn::Set(d, 1.0f), s = hn::Mul(x, x);
  const VF t = hn::Min(hn::Set(d, 4.0f), hn::Abs(x));  // erf(4) rounds to 1
  static constexpr float kLarge[] = {0.0f,           -1.12871754f,    -6.34846687e-1f, -1.06777877e-1f,
                                     2.42546219e-2f, -3.88396438e-3f, 3.83197126e-4f,  -1.72853470e-5f};
  static constexpr float kSmall[] = {1.28379166e-1f,  -3.76125336e-1f, 1.12819925e-1f,
                                     -2.67681349e-2f, 4.99119423e-3f,  -5.96761703e-4f};
  const VF large = hn::Sub(one, Exp(Polynomial(t, kLarge)));
  const VF small = hn::MulAdd(x, Polynomial(s, kSmall), x);
  return hn::IfThenElse(hn::Lt(t, hn::Set(d, 475.0f / 512.0f)), small, hn::CopySign(large, x));
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
