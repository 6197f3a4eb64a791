#include "reel/kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "reel/base/caches.h"
#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/base/sized.h"
#include "reel/kernels/cpu.h"
#include "reel/kernels/gemm_few.h"
#include "reel/kernels/gemm_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/gemm_tile-inl.h"
#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// C tile = start + A * panel, for `rows` <= M rows.
template <int M, class A>
HWY_NOINLINE void GemmTile(const Gemm& g, const Slice& slice, const A& a, const float* panel, const Range& rows,
                           std::size_t column, const Ahead& ahead) {
  const DF d;
  constexpr int N = kGemmVectors;
  const std::size_t columns = g.columns - column;
  const bool whole = columns >= kGemmWidth && (kRowStep == 1 || rows.count == M);
  const auto exists = [&](std::size_t r, std::size_t v)
                          REEL_INLINE { return v * kLanes < columns && (kRowStep == 1 || r < rows.count); };
  float* c = g.c + rows.first * g.c_stride + column;
  Tile<M, N> tile;
  if (!slice.is_first || g.accumulate) {
    if (whole) {
      UnrollTile<M, N>([&](auto r, auto v)
                           REEL_INLINE { tile.c[r][v] = hn::LoadU(d, c + r * g.c_stride + v * kLanes); });
    } else {
      UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
        tile.c[r][v] = exists(r, v) ? LoadFirst(c + r * g.c_stride + v * kLanes, columns - v * kLanes) : hn::Zero(d);
      });
    }
  } else {
    ZeroTile(tile);
  }
  if (slice.is_first && g.bias != nullptr) {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
      if (v * kLanes < columns) {
        tile.c[r][v] = hn::Add(tile.c[r][v], LoadFirst(g.bias + column + v * kLanes, columns - v * kLanes));
      }
    });
  }
  MulTileFetching(slice.depth, a, panel, ahead, tile);
  if (whole) {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE { hn::StoreU(tile.c[r][v], d, c + r * g.c_stride + v * kLanes); });
  } else {
    UnrollTile<M, N>([&](auto r, auto v) REEL_INLINE {
      if (exists(r, v)) StoreFirst(tile.c[r][v], c + r * g.c_stride + v * kLanes, columns - v * kLanes);
    });
  }
}

constexpr std::size_t kPackRows = 4;  // read side by side: as many streams as hardware follows

// Columns of W^T, or rows of B, for one slice: `part` counts panels for kXWt and rows of the slice else, so that
// reading goes along memory in either case.
void PackB(const Gemm& g, const Slice& slice, const Range& part, float* packed) {
  if (g.form == Form::kXWt) {
    for (std::size_t column = part.first * kGemmWidth;
         column < std::min(g.columns, (part.first + part.count) * kGemmWidth); column += kGemmWidth) {
      TransposePanel<kGemmWidth>(g.b.data + column * g.b.stride + slice.first, g.b.stride,
                                 std::min(kGemmWidth, g.columns - column), slice.depth, 1.0f,
                                 packed + column * slice.depth);
    }
    return;
  }
  for (std::size_t k = part.first; k < part.first + part.count; k += kPackRows) {
    const float* from = g.b.data + (slice.first + k) * g.b.stride;
    for (std::size_t column = 0; column < g.columns; column += kGemmWidth) {
      CopyPanel<kGemmVectors>([&](std::size_t i) REEL_INLINE { return from + i * g.b.stride + column; },
                              std::min(kPackRows, part.first + part.count - k),
                              std::min(kGemmWidth, g.columns - column), packed + column * slice.depth + k * kGemmWidth);
    }
  }
}

// Rows of A for one slice: [depth][rows of the tile] for each tile.
void PackA(const Gemm& g, const Slice& slice, const Range& rows, float* packed) {
  if (g.form != Form::kDytX) {
    return ForGemmTiles(rows.count, [&](auto m, std::size_t i, std::size_t n) REEL_INLINE {
      TransposePanel<m>(g.a.data + (rows.first + i) * g.a.stride + slice.first, g.a.stride, n, slice.depth, 1.0f,
                        packed + i * slice.depth);
    });
  }
  constexpr std::size_t kPackSteps = 16;  // rows of dy at a time, or every read misses a page
  for (std::size_t k0 = 0; k0 < slice.depth; k0 += kPackSteps) {
    ForGemmTiles(rows.count, [&](auto m, std::size_t i, std::size_t n) REEL_INLINE {
      constexpr std::size_t M = m;
      const float* from = g.a.data + slice.first * g.a.stride + rows.first + i;
      float* to = packed + i * slice.depth;
      const std::size_t end = std::min(k0 + kPackSteps, slice.depth);
      const auto ask = [&](std::size_t k, std::size_t r)
                           REEL_INLINE { __builtin_prefetch(from + (k + kPackSteps) * g.a.stride + r); };
      std::size_t k = k0;
      if (HWY_MAX_BYTES == 32 && rows.first + i + kLanes <= g.rows) {  // a vector; the next overwrites what is too much
        for (; k * M + kLanes <= end * M; ++k) {
          ask(k, 0);
          hn::StoreU(hn::LoadU(DF(), from + k * g.a.stride), DF(), to + k * M);
        }
      }
      for (; k < end && n == M; ++k) {
        if (HWY_MAX_BYTES == 64) ask(k, 0), ask(k, M - 1);
        std::memcpy(to + k * M, from + k * g.a.stride, M * sizeof(float));
      }
      for (; k < end; ++k) {
        for (std::size_t r = 0; r < M; ++r) to[k * M + r] = r < n ? from[k * g.a.stride + r] : 0.0f;
      }
    });
  }
}

// Rows x panels of C for one slice. packed_a: what PackA made of these rows; null, if kRowsInPlace: read where they
// are.
void Multiply(const Gemm& g, const Slice& slice, const Range& rows, const Range& panels, const float* packed_a) {
  const std::size_t panel_floats = slice.depth * kGemmWidth;
  for (std::size_t p = panels.first; p < panels.first + panels.count; ++p) {
    const std::size_t column = p * kGemmWidth;
    const float* panel = slice.packed + p * panel_floats;
    const bool is_last = p + 1 == panels.first + panels.count;
    const std::size_t rows_of_next = is_last ? 0 : rows.count;
    const std::size_t lines = is_last ? 0 : panel_floats / kLineFloats;
    ForGemmTiles(rows.count, [&](auto m, std::size_t i, std::size_t n) REEL_INLINE {
      constexpr int M = m;
      const Range tile{rows.first + i, n};
      const std::size_t end = i + n, line = lines * i / rows.count;
      const bool below = end < rows.count;  // else the top of the next panel follows
      const float* next =
          g.c + (below ? rows.first + end : rows.first) * g.c_stride + (below ? column : column + kGemmWidth);
      const Ahead ahead{next, g.c_stride, std::min<std::size_t>(M, below ? rows.count - end : rows_of_next),
                        panel + panel_floats + line * kLineFloats, lines * end / rows.count - line};
      if constexpr (kRowsInPlace) {
        if (packed_a == nullptr) {
          RowsOfA<M> a;
          Unroll<M>([&](auto r) REEL_INLINE { a.p[r] = g.a.data + (tile.first + r) * g.a.stride + slice.first; });
          GemmTile<M>(g, slice, a, panel, tile, column, ahead);
          return;
        }
      }
      GemmTile<M>(g, slice, PackedRowsOfA<M>{packed_a + i * slice.depth}, panel, tile, column, ahead);
    });
    if (slice.is_last) Finish(g, rows, column, std::min(kGemmWidth, g.columns - column));
  }
}

std::size_t PanelWidth() { return kGemmWidth; }
std::size_t TileRows() { return kGemmRows; }
bool MustPackRows(const Gemm& g) { return g.form == Form::kDytX || !kRowsInPlace; }

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(PackA);
HWY_EXPORT(PackB);
HWY_EXPORT(Multiply);
HWY_EXPORT(PanelWidth);
HWY_EXPORT(TileRows);
HWY_EXPORT(MustPackRows);

namespace {

// Rows of A that stay in L2 while panels of B pass by: 72 of 1152 deep are 332 KB and leave room for a panel (74 KB) in
// an L2 of 512 KB, or beside a neighbour who has half of a larger one (144 rows lose up to 9 %, docs/decisions/0019).
constexpr std::size_t kBlockRows = 72;
// Depth of a slice. dy^T x packs both sides for every slice and waits twice, and C is read again: few slices, if rows
// and panels of that depth fit L2.
std::size_t slice_depth() { return caches().l2 > (512 << 10) ? 2048 : 1280; }
// Columns in blocks, so that all rows read the packed B of a block from L3, and no more blocks than that needs: each
// packs all rows of A anew. 4608 columns of 1152 are 21 MB: two Zen 3 cores, who share 32 MB with others, are 7 %
// faster with blocks of 1280; on a Xeon with 260 MB all at once is 6 % faster.
std::size_t block_columns(std::size_t depth) {
  constexpr std::size_t kLeastColumns = 1280;
  static const std::size_t floats = caches().l3 / 8 / sizeof(float) / sized(launched().on_host);
  return std::max(kLeastColumns, floats / std::max<std::size_t>(1, depth));
}
// For each thread at least, so that a slow moment of one does not keep the others waiting; fewer will do where rows
// must be packed.
constexpr std::size_t kChunks = 16, kLeastChunks = 4;
// One stream of A is faster than six even where it need not be packed, if enough columns pay for it
// (docs/decisions/0005).
constexpr std::size_t kPackColumns = 192;

// Columns [range.first, + count) of g as a product of its own.
Gemm columns_of(const Gemm& g, const Range& range) {
  Gemm part = g;
  part.columns = range.count;
  part.b.data += range.first * (g.form == Form::kXWt ? g.b.stride : 1);
  part.c += range.first;
  if (g.bias != nullptr) part.bias += range.first;
  if (g.before != nullptr) part.before += range.first;
  return part;
}

void multiply_block(const Gemm& g, std::size_t slices, std::size_t width, Threads& threads) {
  const std::size_t panels = pieces_of(g.columns, width), deepest = pieces_of(g.depth, slices);

  // The pieces may depend on the number of threads: how rows and columns are cut does not change a bit of the result.
  const auto team = sized(threads.count());
  const std::size_t tile = REEL_DISPATCH(TileRows)(), tiles = pieces_of(g.rows, tile);
  const std::size_t row_pieces = std::min(tiles, pieces_of(pieces_of(g.rows, kBlockRows), team) * team);
  const auto rows_of = [&](std::size_t i) {  // whole tiles
    const Range part = piece(tiles, row_pieces, i);
    return Range{part.first * tile, std::min(part.count * tile, g.rows - part.first * tile)};
  };
  // Rows of A are packed where they are used, while they are in L2, if there are enough pieces of rows for all threads
  // (dy^T x 4096x4608x1152 on a Xeon: 309 instead of 283-297 GFLOP/s); else columns are cut too, and rows that must be
  // packed are packed for all.
  const bool must_pack = REEL_DISPATCH(MustPackRows)(g);
  const bool packed_in_place =
      row_pieces >= (must_pack ? kLeastChunks : kChunks) * team && (must_pack || g.columns >= kPackColumns);
  const std::size_t panel_pieces = packed_in_place ? 1 : std::min(panels, pieces_of(kChunks * team, row_pieces));
  const bool pack_rows = must_pack || packed_in_place, shared_rows = pack_rows && panel_pieces > 1;
  float* packed = threads.shared_scratch(panels * width * deepest + (shared_rows ? tiles * tile * deepest : 0));
  float* packed_rows = packed + panels * width * deepest;
  const auto pack_a = REEL_DISPATCH(PackA);
  const auto pack_b = REEL_DISPATCH(PackB);
  const auto multiply = REEL_DISPATCH(Multiply);
  for (std::size_t s = 0; s < slices; ++s) {
    const Range depth = piece(g.depth, slices, s);
    const Slice slice{depth.first, depth.count, s == 0, s + 1 == slices, packed};
    const std::size_t parts = g.form == Form::kXWt ? panels : depth.count;
    const std::size_t pack_pieces = g.form == Form::kXWt ? std::min(panels, 8 * team) : pieces_of(depth.count, 32);
    threads.run(static_cast<std::int64_t>(pack_pieces + (shared_rows ? row_pieces : 0)), [&](std::int64_t i, int) {
      const auto chunk = sized(i);
      if (chunk < pack_pieces) return pack_b(g, slice, piece(parts, pack_pieces, chunk), packed);
      const Range rows = rows_of(chunk - pack_pieces);
      pack_a(g, slice, rows, packed_rows + rows.first * depth.count);
    });
    threads.run(static_cast<std::int64_t>(row_pieces * panel_pieces), [&](std::int64_t i, int thread) {
      const auto chunk = sized(i);
      const Range rows = rows_of(chunk / panel_pieces);
      float* rows_of_a = shared_rows ? packed_rows + rows.first * depth.count : nullptr;
      if (pack_rows && !shared_rows) {
        rows_of_a = threads.scratch(thread, pieces_of(rows.count, tile) * tile * deepest);
        pack_a(g, slice, rows, rows_of_a);
      }
      multiply(g, slice, rows, piece(panels, panel_pieces, chunk % panel_pieces), rows_of_a);
    });
  }
}

}  // namespace

void gemm(const Gemm& g, Threads& threads) {
  if (g.rows == 0 || g.columns == 0) return;
  REEL_CHECK(g.c != nullptr && g.c_stride >= g.columns);
  REEL_CHECK(g.depth == 0 || (g.a.stride >= (g.form == Form::kDytX ? g.rows : g.depth) &&
                              g.b.stride >= (g.form == Form::kXWt ? g.depth : g.columns)));
  const std::size_t width = REEL_DISPATCH(PanelWidth)();
  if (g.form == Form::kXWt && g.rows <= most_few_rows()) return gemm_few_rows(g, threads);

  const std::size_t slices = std::max<std::size_t>(1, pieces_of(g.depth, slice_depth()));
  const std::size_t blocks = pieces_of(g.columns, block_columns(pieces_of(g.depth, slices)));
  for (std::size_t i = 0; i < blocks; ++i) {
    const Range panels = piece(pieces_of(g.columns, width), blocks, i);
    const std::size_t first = panels.first * width;
    multiply_block(columns_of(g, {first, std::min(panels.count * width, g.columns - first)}), slices, width, threads);
  }
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
