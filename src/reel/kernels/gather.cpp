#include "reel/kernels/gather.h"

#include "reel/base/sized.h"
#include "reel/kernels/chunks.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/gather.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

void AddRow(const float* from, float* to, std::size_t n) {
  ForVectors(n, [&](std::size_t i, auto extent)
                    REEL_INLINE { Store(hn::Add(Load(to + i, extent), Load(from + i, extent)), to + i, extent); });
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(AddRow);

namespace {

void check_index(std::span<const std::int32_t> index, std::size_t rows) {
  for (const std::int32_t i : index) REEL_CHECK(i >= 0 && sized(i) < rows);
}

}  // namespace

void gather_rows(ConstRows from, std::span<const std::int32_t> index, Rows to, Threads& threads) {
  REEL_CHECK(to.rows == index.size() && to.width == from.width);
  check_index(index, from.rows);
  for_row_chunks(to.rows, to.width, threads, [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const float* row = from.row(sized(index[i]));
      std::copy(row, row + from.width, to.row(i));
    }
  });
}

void scatter_add_rows(ConstRows from, std::span<const std::int32_t> index, Rows to, Threads& threads) {
  REEL_CHECK(from.rows == index.size() && to.width == from.width);
  check_index(index, to.rows);
  if (index.empty()) return;
  // A counting sort lists the sources of each destination in order, so that a chunk of destinations has one owner.
  Buffer<std::size_t> begin = Buffer<std::size_t>::zeros(to.rows + 1);
  Buffer<std::size_t> sources(index.size());
  for (const std::int32_t i : index) ++begin[sized(i) + 1];
  for (std::size_t row = 0; row < to.rows; ++row) begin[row + 1] += begin[row];
  for (std::size_t i = 0; i < index.size(); ++i) sources[begin[sized(index[i])]++] = i;
  // Filling has moved each begin to the begin of the next row.
  for_row_chunks(to.rows, to.width, threads, [&](std::size_t first, std::size_t end) {
    const auto add_row = REEL_DISPATCH(AddRow);
    for (std::size_t row = first; row < end; ++row) {
      for (std::size_t s = row == 0 ? 0 : begin[row - 1]; s < begin[row]; ++s) {
        add_row(from.row(sources[s]), to.row(row), to.width);
      }
    }
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
