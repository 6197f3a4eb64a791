#include "reel/kernels/modulate.h"

#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/modulate.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

void ModulateRow(const float* x, const float* scale, const float* shift, float* y, std::size_t n) {
  const DF d;
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF factor = hn::Add(hn::Set(d, 1.0f), Load(scale + i, extent));
    Store(hn::MulAdd(Load(x + i, extent), factor, Load(shift + i, extent)), y + i, extent);
  });
}

void ModulateRowBackward(const float* x, const float* scale, const float* dy, float* dx, float* dscale, float* dshift,
                         std::size_t n) {
  const DF d;
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF g = Load(dy + i, extent), factor = hn::Add(hn::Set(d, 1.0f), Load(scale + i, extent));
    Store(hn::MulAdd(g, Load(x + i, extent), Load(dscale + i, extent)), dscale + i, extent);
    Store(hn::Add(g, Load(dshift + i, extent)), dshift + i, extent);
    Store(hn::Mul(g, factor), dx + i, extent);
  });
}

void GateRow(const float* x, const float* gate, const float* r, float* y, std::size_t n) {
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    Store(hn::MulAdd(Load(gate + i, extent), Load(r + i, extent), Load(x + i, extent)), y + i, extent);
  });
}

void GateRowBackward(const float* gate, const float* r, const float* dy, float* dr, float* dgate, std::size_t n) {
  ForVectors(n, [&](std::size_t i, auto extent) REEL_INLINE {
    const VF g = Load(dy + i, extent);
    Store(hn::MulAdd(g, Load(r + i, extent), Load(dgate + i, extent)), dgate + i, extent);
    Store(hn::Mul(g, Load(gate + i, extent)), dr + i, extent);
  });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(ModulateRow);
HWY_EXPORT(ModulateRowBackward);
HWY_EXPORT(GateRow);
HWY_EXPORT(GateRowBackward);

namespace {

// Token rows of one batch item.
std::size_t rows_per_item(std::size_t rows, std::size_t items) {
  if (rows == 0) return 1;
  REEL_CHECK(items > 0 && rows % items == 0);
  return rows / items;
}

}  // namespace

void modulate(ConstRows x, ConstRows scale, ConstRows shift, Rows y, Threads& threads) {
  REEL_CHECK(same_shape(x, y) && same_shape(scale, shift) && scale.width == x.width);
  const std::size_t per_item = rows_per_item(x.rows, scale.rows);
  for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
    const auto kernel = REEL_DISPATCH(ModulateRow);
    for (std::size_t i = first; i < end; ++i) {
      kernel(x.row(i), scale.row(i / per_item), shift.row(i / per_item), y.row(i), x.width);
    }
  });
}

void modulate_backward(ConstRows x, ConstRows scale, ConstRows dy, Rows dx, Rows dscale, Rows dshift,
                       Threads& threads) {
  REEL_CHECK(same_shape(x, dy) && same_shape(x, dx) && scale.width == x.width);
  REEL_CHECK(same_shape(scale, dscale) && same_shape(scale, dshift));
  const std::size_t per_item = x.rows == 0 ? 0 : rows_per_item(x.rows, scale.rows);
  sum_rows(scale.rows, per_item, x.width, std::array{dscale, dshift}, Write::kOverwrite, threads,
           [&](std::size_t first, std::size_t end, const std::array<float*, 2>& sums) {
             const auto kernel = REEL_DISPATCH(ModulateRowBackward);
             for (std::size_t i = first; i < end; ++i) {
               kernel(x.row(i), scale.row(i / per_item), dy.row(i), dx.row(i), sums[0], sums[1], x.width);
             }
           });
}

void gate(ConstRows x, ConstRows gate, ConstRows r, Rows y, Threads& threads) {
  REEL_CHECK(same_shape(x, y) && same_shape(x, r) && gate.width == x.width);
  const std::size_t per_item = rows_per_item(x.rows, gate.rows);
  for_row_chunks(x.rows, x.width, threads, [&](std::size_t first, std::size_t end) {
    const auto kernel = REEL_DISPATCH(GateRow);
    for (std::size_t i = first; i < end; ++i) {
      kernel(x.row(i), gate.row(i / per_item), r.row(i), y.row(i), x.width);
    }
  });
}

void gate_backward(ConstRows gate, ConstRows r, ConstRows dy, Rows dr, Rows dgate, Threads& threads) {
  REEL_CHECK(same_shape(r, dy) && same_shape(r, dr) && same_shape(gate, dgate) && gate.width == r.width);
  const std::size_t per_item = r.rows == 0 ? 0 : rows_per_item(r.rows, gate.rows);
  sum_rows(gate.rows, per_item, r.width, std::array{dgate}, Write::kOverwrite, threads,
           [&](std::size_t first, std::size_t end, const std::array<float*, 1>& sums) {
             const auto kernel = REEL_DISPATCH(GateRowBackward);
             for (std::size_t i = first; i < end; ++i) {
               kernel(gate.row(i / per_item), r.row(i), dy.row(i), dr.row(i), sums[0], r.width);
             }
           });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
