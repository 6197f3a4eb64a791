#include "reel/sparsity/break_even.h"

#include <gtest/gtest.h>

#include "reel/files/csv.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"
#include "reel/kernels/cpu.h"

namespace reel::sparsity {
namespace {

class BreakEvenCache : public ::testing::Test {
 protected:
  TempFolder folder_;
  Threads threads_{1};
};

void expect_sane(const BreakEven& found) {
  EXPECT_GE(found.share, 0.01f);
  EXPECT_LE(found.share, 0.95f);
  EXPECT_GE(found.tile_cost, 0.1f);
  EXPECT_LE(found.tile_cost, 10);
}

TEST_F(BreakEvenCache, IsMeasuredOnceForLengthsThatAreAlike) {
  const std::string cache = folder_ / "deep/er/cache.csv";
  const BreakEven first = break_even_for(cache, 700, 16, threads_);
  expect_sane(first);
  const Csv table = Csv::load(cache);
  ASSERT_EQ(table.rows(), 1u);
  EXPECT_EQ(table.text(0, "instructions"), kernels::target());
  EXPECT_EQ(table.integer(0, "tokens"), 1024);
  const BreakEven again = break_even_for(cache, 1000, 16, threads_);
  EXPECT_EQ(again.share, first.share);
  EXPECT_EQ(again.tile_cost, first.tile_cost);
  EXPECT_EQ(Csv::load(cache).rows(), 1u);
  break_even_for(cache, 1, 8, threads_);
  EXPECT_EQ(Csv::load(cache).rows(), 2u) << "another head_dim";
}

TEST_F(BreakEvenCache, TellsRowsOfOtherProcessorsLengthsAndHeadsApart) {
  const std::string cache = folder_ / "cache.csv";
  CsvWriter table({"instructions", "tokens", "head_dim", "share", "tile_cost"});
  table.add("another", 1024, 16, 0.11, 1.1);
  table.add(kernels::target(), 2048, 16, 0.22, 1.2);
  table.add(kernels::target(), 1024, 32, 0.33, 1.3);
  table.add(kernels::target(), 8192, 16, 0.44, 1.4);
  table.add(kernels::target(), 1024, 16, 0.55, 1.5);
  table.write(cache);
  EXPECT_EQ(break_even_for(cache, 10, 16, threads_).share, 0.55f);
  EXPECT_EQ(break_even_for(cache, 1024, 16, threads_).tile_cost, 1.5f);
  EXPECT_EQ(break_even_for(cache, 1025, 16, threads_).share, 0.22f);
  EXPECT_EQ(break_even_for(cache, 64, 32, threads_).share, 0.33f);
  EXPECT_EQ(break_even_for(cache, 100000, 16, threads_).share, 0.44f);
}

TEST_F(BreakEvenCache, ADamagedCacheIsBegunAnewAndOneThatCannotBeWrittenIsNoError) {
  const std::string cache = folder_ / "cache.csv";
  for (const char* text : {"", "instructions,tokens,head_dim,share,tile_cost\nx,1,2\n"}) {
    write_file_atomically(cache, text);
    expect_sane(break_even_for(cache, 64, 8, threads_));
    EXPECT_EQ(Csv::load(cache).rows(), 1u) << text;
  }
  expect_sane(break_even_for(cache + "/no/folder.csv", 64, 8, threads_));
}

}  // namespace
}  // namespace reel::sparsity
