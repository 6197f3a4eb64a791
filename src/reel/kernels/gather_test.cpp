#include "reel/kernels/gather.h"

#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::expect_close;
using testing::for_every_target;
using testing::Grid;
using testing::kWidths;
using testing::random_matrix;

std::vector<std::int32_t> random_index(std::size_t size, std::size_t rows, std::uint64_t stream) {
  const Random random(3, stream);
  std::vector<std::int32_t> index(size);
  for (std::size_t i = 0; i < size; ++i) index[i] = static_cast<std::int32_t>(random.below(i, rows));
  return index;
}

TEST(Gather, RowsArriveUnchanged) {
  Threads threads(2);
  for_every_target([&] {
    for (const std::size_t width : kWidths) {
      const Grid from = random_matrix(9, width, 1, width);
      const auto index = random_index(40, 9, width);
      Grid to(40, width, 2);
      gather_rows(from, index, to, threads);
      std::vector<double> want;
      for (const std::int32_t i : index) {
        const float* row = from.row(static_cast<std::size_t>(i));
        want.insert(want.end(), row, row + width);
      }
      expect_close(to, want, 0.0, 0.0);
    }
  });
}

// The same bits as one loop over the sources, repeats included; rows that nobody names keep theirs.
TEST(Gather, ScatterAddGivesTheBitsOfASerialLoopForAnyThreads) {
  Threads one(1), three(3);
  for_every_target([&] {
    for (const std::size_t width : kWidths) {
      for (const std::size_t sources : {std::size_t(0), std::size_t(1), std::size_t(50), std::size_t(500)}) {
        const std::size_t rows = 70;
        const Grid from = random_matrix(sources, width, 1, width);
        const auto index = random_index(sources, rows, width);
        Grid serial = random_matrix(rows, width, 2, 5), a(serial), b(serial);
        for (std::size_t i = 0; i < sources; ++i) {
          float* row = serial.row(static_cast<std::size_t>(index[i]));
          for (std::size_t j = 0; j < width; ++j) row[j] += from.row(i)[j];
        }
        scatter_add_rows(from, index, a, one);
        scatter_add_rows(from, index, b, three);
        testing::expect_same_bits(serial.array(), a.array());
        testing::expect_same_bits(serial.array(), b.array());
      }
    }
  });
}

// <gather(x), y> = <x, scatter(y)>: one is the gradient of the other.
TEST(Gather, ScatterAddIsTheTransposeOfGather) {
  Threads threads(2);
  const Grid x = random_matrix(20, 13, 0, 1), y = random_matrix(60, 13, 0, 2);
  const auto index = random_index(60, 20, 1);
  Grid gathered(60, 13), scattered(20, 13);
  std::fill(scattered.array().begin(), scattered.array().end(), 0.0f);
  gather_rows(x, index, gathered, threads);
  scatter_add_rows(y, index, scattered, threads);
  EXPECT_NEAR(testing::inner_product(gathered.values(), y.values()),
              testing::inner_product(x.values(), scattered.values()), 1e-4);
}

TEST(GatherDeathTest, IndexOutOfRangeIsABug) {
  Threads threads(1);
  const Grid from = random_matrix(3, 4, 0, 1);
  Grid to(1, 4);
  const std::vector<std::int32_t> high = {3}, negative = {-1};
  EXPECT_DEATH(gather_rows(from, high, to, threads), "");
  EXPECT_DEATH(gather_rows(from, negative, to, threads), "");
}

}  // namespace
}  // namespace reel::kernels
