#include "reel/kernels/adamw.h"

#include <cmath>

#include "reel/base/error.h"
#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/adamw.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// The factors are worked out in double: 1 - 0.999f is wrong in the fifth digit.
void AdamWRange(const AdamW& adamw, float* p, const float* g, float* m, float* v, std::size_t n) {
  const auto set = [](double value) HWY_ATTR { return hn::Set(DF(), static_cast<float>(value)); };
  const double step_number = static_cast<double>(adamw.step);
  const VF beta1 = set(adamw.beta1), rest1 = set(1.0 - adamw.beta1);
  const VF beta2 = set(adamw.beta2), rest2 = set(1.0 - adamw.beta2);
  const VF grad_scale = set(adamw.grad_scale), keep = set(1.0 - adamw.lr * adamw.weight_decay);
  const VF lr = set(adamw.lr / (1.0 - std::pow(adamw.beta1, step_number)));
  const VF root = set(1.0 / std::sqrt(1.0 - std::pow(adamw.beta2, step_number))), eps = set(adamw.eps);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF grad = hn::Mul(grad_scale, Load(g + i, extent));
    const VF mean = hn::MulAdd(beta1, Load(m + i, extent), hn::Mul(rest1, grad));
    const VF square = hn::MulAdd(beta2, Load(v + i, extent), hn::Mul(rest2, hn::Mul(grad, grad)));
    const VF step = hn::Div(mean, hn::MulAdd(hn::Sqrt(square), root, eps));
    Store(hn::NegMulAdd(lr, step, hn::Mul(keep, Load(p + i, extent))), p + i, extent);
    Store(mean, m + i, extent);
    Store(square, v + i, extent);
  });
}

// average += rest * (p - average): an average that has arrived stays exactly.
void EmaRange(float rest, const float* p, float* average, std::size_t n) {
  const VF factor = hn::Set(DF(), rest);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF before = Load(average + i, extent);
    Store(hn::MulAdd(factor, hn::Sub(Load(p + i, extent), before), before), average + i, extent);
  });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(AdamWRange);
HWY_EXPORT(EmaRange);

void adamw_step(const AdamW& adamw, std::span<float> p, std::span<const float> g, std::span<float> m,
                std::span<float> v, Threads& threads) {
  REEL_CHECK(p.size() == g.size() && p.size() == m.size() && p.size() == v.size() && adamw.step >= 1);
  for_chunks(p.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(AdamWRange)(adamw, p.data() + i, g.data() + i, m.data() + i, v.data() + i, end - i);
  });
}

void ema_step(double decay, std::span<const float> p, std::span<float> average, Threads& threads) {
  REEL_CHECK(p.size() == average.size());
  for_chunks(p.size(), threads, [&](std::size_t i, std::size_t end) {
    REEL_DISPATCH(EmaRange)(static_cast<float>(1.0 - decay), p.data() + i, average.data() + i, end - i);
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
