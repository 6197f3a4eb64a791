// Walking along a row, compiled once per instruction set (include after hwy/foreach_target.h).
//
// A row is whole vectors and then perhaps a part of one. ForVectors calls the same body for both, with an extent that
// says which; Load and Store take the extent, so a kernel is written once and its tails are exact: nothing past the end
// is read or written. Every lane of a tail goes through the same instructions as a lane of a whole vector, so an
// element-wise result does not depend on where a row was cut.
#if defined(REEL_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_KERNELS_ROWS_INL_H_
#undef REEL_KERNELS_ROWS_INL_H_
#else
#define REEL_KERNELS_ROWS_INL_H_
#endif

#include <limits>

#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

struct Whole {};
struct Part {
  std::size_t n;  // 0 < n < kLanes
};

HWY_INLINE VF Load(const float* p, Whole) { return hn::LoadU(DF(), p); }
HWY_INLINE void Store(VF v, float* p, Whole) { hn::StoreU(v, DF(), p); }

HWY_INLINE VF Load(const float* p, Part part) { return LoadPart(p, part.n); }
HWY_INLINE void Store(VF v, float* p, Part part) { StorePart(v, p, part.n); }

// v in the lanes of the extent, `other` beyond it.
HWY_INLINE VF Fill(VF v, float /*other*/, Whole) { return v; }
HWY_INLINE VF Fill(VF v, float other, Part part) {
  const DF d;
  return hn::IfThenElse(hn::FirstN(d, part.n), v, hn::Set(d, other));
}

// f(i, extent) for the vectors that begin at element i.
template <class F>
HWY_INLINE void ForVectors(std::size_t n, const F& f) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, Whole());
  if (i < n) f(i, Part{n - i});
}

// Sums of K quantities over a row: f(i, extent, VF (&terms)[K]) gives the terms at element i (anything beyond the
// extent). Two chains of additions a quantity; the order of the additions depends on n alone.
template <int K, class F>
HWY_INLINE void SumRow(std::size_t n, float (&sums)[K], const F& f) {
  const DF d;
  VF a[K], b[K], terms[K];
  Unroll<K>([&](auto k) REEL_INLINE { a[k] = b[k] = hn::Zero(d); });
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    f(i, Whole(), terms);
    Unroll<K>([&](auto k) REEL_INLINE { a[k] = hn::Add(a[k], terms[k]); });
    f(i + kLanes, Whole(), terms);
    Unroll<K>([&](auto k) REEL_INLINE { b[k] = hn::Add(b[k], terms[k]); });
  }
  if (i + kLanes <= n) {
    f(i, Whole(), terms);
    Unroll<K>([&](auto k) REEL_INLINE { a[k] = hn::Add(a[k], terms[k]); });
    i += kLanes;
  }
  if (i < n) {
    const Part part{n - i};
    f(i, part, terms);
    Unroll<K>([&](auto k) REEL_INLINE { b[k] = hn::Add(b[k], Fill(terms[k], 0.0f, part)); });
  }
  Unroll<K>([&](auto k) REEL_INLINE { sums[k] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a[k], b[k]))); });
}
template <class F>
HWY_INLINE float SumRow(std::size_t n, const F& f) {  // one quantity: VF f(i, extent)
  float sums[1];
  SumRow<1>(n, sums, [&](std::size_t i, auto extent, VF(&terms)[1]) REEL_INLINE { terms[0] = f(i, extent); });
  return sums[0];
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
