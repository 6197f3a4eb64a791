#include "reel/layout/cut.h"

#include <gtest/gtest.h>

namespace reel::layout {
namespace {

TEST(Cut, PartsDifferByOneAndMayBeEmpty) {
  EXPECT_EQ(even_cut(7, 3).starts, (std::vector<std::int64_t>{0, 3, 5, 7}));
  EXPECT_EQ(even_cut(2, 4).starts, (std::vector<std::int64_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(some_parts(even_cut(7, 3), 1, 2).starts, (std::vector<std::int64_t>{0, 2, 4}));
}

}  // namespace
}  // namespace reel::layout
