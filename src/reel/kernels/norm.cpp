#include "reel/kernels/norm.h"

#include <cmath>

#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/norm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// One row. RMS norm is layer norm with a mean of 0 that nobody computes.
HWY_INLINE void NormRow(const float* x, const float* weight, const float* bias, float eps, float* y, std::size_t n,
                        bool centred, float& mean, float& rstd) {
  const DF d;
  const float share = 1.0f / static_cast<float>(n);
  float squares;
  if (centred) {
    const float rough = SumRow(n, [&](std::size_t i, auto extent) REEL_INLINE { return Load(x + i, extent); }) * share;
    // The sum of what is left over, nearly free in the second pass, takes the error of the first sum back out.
    const VF m = hn::Set(d, rough);
    float sums[2];
    SumRow<2>(n, sums, [&](std::size_t i, auto extent, VF(&terms)[2]) REEL_INLINE {
      terms[0] = hn::Sub(Load(x + i, extent), m);
      terms[1] = hn::Mul(terms[0], terms[0]);
    });
    mean = rough + sums[0] * share;
    squares = sums[1] - sums[0] * sums[0] * share;
    if (squares < 0.0f) squares = 0.0f;  // std::max would lose a NaN
  } else {
    mean = 0.0f;
    squares = SumRow(n, [&](std::size_t i, auto extent) REEL_INLINE {
      const VF v = Load(x + i, extent);
      return hn::Mul(v, v);
    });
  }
  const VF m = hn::Set(d, mean);
  rstd = 1.0f / std::sqrt(squares * share + eps);
  const VF r = hn::Set(d, rstd);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    VF v = hn::Mul(hn::Sub(Load(x + i, extent), m), r);
    if (weight != nullptr) v = hn::Mul(v, Load(weight + i, extent));
    if (bias != nullptr) v = hn::Add(v, Load(bias + i, extent));
    Store(v, y + i, extent);
  });
}

void NormRows(const ConstRows& x, const float* weight, const float* bias, float eps, const Rows& y, float* mean,
              float* rstd, bool centred, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    float m, r;
    NormRow(x.row(i), weight, bias, eps, y.row(i), x.width, centred, m, r);
    if (mean != nullptr) mean[i] = m;
    if (rstd != nullptr) rstd[i] = r;
  }
}

// With g = dy * weight and h = (x - mean) * rstd: dx = rstd * (g - mean of g - h * mean of (g h)), where RMS norm has
// no mean of g. dweight += dy * h, dbias += dy.
HWY_INLINE void NormRowBackward(const float* x, const float* weight, float mean, float rstd, const float* dy, float* dx,
                                float* dweight, float* dbias, std::size_t n, bool centred) {
  const DF d;
  const VF m = hn::Set(d, mean), r = hn::Set(d, rstd);
  float sums[2];
  SumRow<2>(n, sums, [&](std::size_t i, auto extent, VF(&terms)[2]) REEL_INLINE {
    const VF out = Load(dy + i, extent), h = hn::Mul(hn::Sub(Load(x + i, extent), m), r);
    const VF g = weight != nullptr ? hn::Mul(out, Load(weight + i, extent)) : out;
    terms[0] = g;
    terms[1] = hn::Mul(g, h);
    if (dweight != nullptr) Store(hn::MulAdd(out, h, Load(dweight + i, extent)), dweight + i, extent);
    if (dbias != nullptr) Store(hn::Add(out, Load(dbias + i, extent)), dbias + i, extent);
  });
  const float share = 1.0f / static_cast<float>(n);
  const VF mean_g = hn::Set(d, centred ? sums[0] * share : 0.0f), mean_gh = hn::Set(d, sums[1] * share);
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF h = hn::Mul(hn::Sub(Load(x + i, extent), m), r);
    VF g = Load(dy + i, extent);
    if (weight != nullptr) g = hn::Mul(g, Load(weight + i, extent));
    Store(hn::Mul(r, hn::NegMulAdd(h, mean_gh, hn::Sub(g, mean_g))), dx + i, extent);
  });
}

void NormRowsBackward(const ConstRows& x, const float* weight, const float* mean, const float* rstd,
                      const ConstRows& dy, const Rows& dx, float* dweight, float* dbias, std::size_t first,
                      std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    const bool centred = mean != nullptr;
    NormRowBackward(x.row(i), weight, centred ? mean[i] : 0.0f, rstd[i], dy.row(i), dx.row(i), dweight, dbias, x.width,
                    centred);
  }
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(NormRows);
HWY_EXPORT(NormRowsBackward);

namespace {

void norm(const ConstRows& x, const float* weight, const float* bias, float eps, const Rows& y, float* mean,
          float* rstd, bool centred, Threads& threads) {
  REEL_CHECK(same_shape(x, y) && x.width > 0);
  for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
    REEL_DISPATCH(NormRows)(x, weight, bias, eps, y, mean, rstd, centred, first, end);
  });
}

// mean == nullptr: RMS norm.
void norm_backward(const ConstRows& x, const float* weight, const float* mean, const float* rstd, const ConstRows& dy,
                   const Rows& dx, float* dweight, float* dbias, Threads& threads) {
  REEL_CHECK(same_shape(x, dy) && same_shape(x, dx) && x.width > 0 && (rstd != nullptr || x.rows == 0));
  if (dweight == nullptr && dbias == nullptr) {
    for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
      REEL_DISPATCH(NormRowsBackward)(x, weight, mean, rstd, dy, dx, nullptr, nullptr, first, end);
    });
    return;
  }
  const std::array<Rows, 2> outs = {Rows(dweight, 1, x.width), Rows(dbias, 1, x.width)};
  sum_rows(1, x.rows, x.width, outs, Write::kAdd, threads,
           [&](std::size_t first, std::size_t end, const std::array<float*, 2>& sums) {
             REEL_DISPATCH(NormRowsBackward)
             (x, weight, mean, rstd, dy, dx, dweight != nullptr ? sums[0] : nullptr,
              dbias != nullptr ? sums[1] : nullptr, first, end);
           });
}

}  // namespace

void layer_norm(ConstRows x, const float* weight, const float* bias, float eps, Rows y, float* mean, float* rstd,
                Threads& threads) {
  norm(x, weight, bias, eps, y, mean, rstd, true, threads);
}

void layer_norm_backward(ConstRows x, const float* weight, const float* mean, const float* rstd, ConstRows dy, Rows dx,
                         float* dweight, float* dbias, Threads& threads) {
  REEL_CHECK(mean != nullptr || x.rows == 0);
  norm_backward(x, weight, mean, rstd, dy, dx, dweight, dbias, threads);
}

void rms_norm(ConstRows x, const float* weight, float eps, Rows y, float* rstd, Threads& threads) {
  norm(x, weight, nullptr, eps, y, nullptr, rstd, false, threads);
}

void rms_norm_backward(ConstRows x, const float* weight, const float* rstd, ConstRows dy, Rows dx, float* dweight,
                       Threads& threads) {
  norm_backward(x, weight, nullptr, rstd, dy, dx, dweight, nullptr, threads);
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
