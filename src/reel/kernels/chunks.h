// How the row-wise kernels cut their work: by shape alone, so that results have the same bits for any number of
// threads.
//
// What is summed over rows is summed within a chunk of rows first, then over the chunks, in their order and in double.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/base/threads.h"
#include "reel/kernels/rows.h"

namespace reel::kernels {

// 64 KB a chunk: some microseconds of work, against some 0.1 us for handing it out.
constexpr std::size_t kChunkFloats = 16384;
// At least so many rows a chunk where rows are summed: the partial sums are 1/64 of what is summed.
constexpr std::size_t kSumRows = 64;

inline std::size_t rows_per_chunk(std::size_t width) {
  return std::max<std::size_t>(1, kChunkFloats / std::max<std::size_t>(1, width));
}

// work(first, end) for each chunk of rows of `width` floats.
template <class Work>
void for_row_chunks(std::size_t rows, std::size_t width, Threads& threads, const Work& work) {
  const std::size_t step = rows_per_chunk(width);
  threads.run(static_cast<std::int64_t>((rows + step - 1) / step), [&](std::int64_t chunk, int) {
    const std::size_t first = sized(chunk) * step;
    work(first, std::min(rows, first + step));
  });
}

// work(first, end) for each chunk of a flat array.
template <class Work>
void for_chunks(std::size_t size, Threads& threads, const Work& work) {
  for_row_chunks(size, 1, threads, work);
}

// The sum over a flat array of what work(first, end) returns for each of its chunks, a double, added in their order.
template <class Work>
double sum_chunks(std::size_t size, Threads& threads, const Work& work) {
  Buffer<double> parts((size + kChunkFloats - 1) / kChunkFloats);
  for_chunks(size, threads,
             [&](std::size_t first, std::size_t end) { parts[first / kChunkFloats] = work(first, end); });
  double sum = 0.0;
  for (const double part : parts) sum += part;
  return sum;
}

// Sums over the rows of each of `items` groups of `rows_per_item` rows, for N quantities at once: work(first, end,
// sums) adds rows [first, end) to sums[0], ..., sums[N-1], each `width` floats that are zero before. outs[i] has
// `items` rows. An out whose data is null is summed (work always gets N places) and dropped.
template <std::size_t N, class Work>
void sum_rows(std::size_t items, std::size_t rows_per_item, std::size_t width, const std::array<Rows, N>& outs,
              Write write, Threads& threads, const Work& work) {
  const std::size_t step = std::max(kSumRows, rows_per_chunk(width));
  const std::size_t parts = (rows_per_item + step - 1) / step;  // per item
  Buffer<float> partials(items * parts * N * width);            // [item][part][quantity][width]
  threads.run(static_cast<std::int64_t>(items * parts), [&](std::int64_t chunk, int) {
    const std::size_t item = sized(chunk) / parts, part = sized(chunk) % parts;
    const std::size_t first = item * rows_per_item + part * step;
    const std::size_t end = std::min((item + 1) * rows_per_item, first + step);
    float* block = partials.data() + sized(chunk) * N * width;
    std::fill(block, block + N * width, 0.0f);
    std::array<float*, N> sums;
    for (std::size_t i = 0; i < N; ++i) sums[i] = block + i * width;
    work(first, end, sums);
  });
  constexpr std::size_t kColumns = 128;
  const std::size_t blocks = (width + kColumns - 1) / kColumns;
  threads.run(static_cast<std::int64_t>(items * blocks), [&](std::int64_t chunk, int) {
    const std::size_t item = sized(chunk) / blocks;
    const std::size_t column = sized(chunk) % blocks * kColumns;
    const std::size_t columns = std::min(kColumns, width - column);
    for (std::size_t i = 0; i < N; ++i) {
      if (outs[i].data == nullptr) continue;
      double sums[kColumns] = {};
      for (std::size_t part = 0; part < parts; ++part) {
        const float* from = partials.data() + ((item * parts + part) * N + i) * width + column;
        for (std::size_t c = 0; c < columns; ++c) sums[c] += from[c];
      }
      float* out = outs[i].row(item) + column;
      for (std::size_t c = 0; c < columns; ++c) {
        out[c] = static_cast<float>(write == Write::kAdd ? out[c] + sums[c] : sums[c]);
      }
    }
  });
}

}  // namespace reel::kernels
