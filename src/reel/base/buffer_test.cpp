#include "reel/base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace reel {
namespace {

TEST(Buffer, IsAlignedForEverySize) {
  for (std::size_t size : {1u, 3u, 64u, 1000u}) {
    const Buffer<char> buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size(), size);
  }
}

TEST(Buffer, ZerosAreZeroAndClearClears) {
  Buffer<float> buffer = Buffer<float>::zeros(100);
  EXPECT_EQ(std::accumulate(buffer.begin(), buffer.end(), 0.0f), 0.0f);
  buffer[99] = 3;
  buffer.clear();
  EXPECT_EQ(buffer[99], 0.0f);
}

TEST(Buffer, EmptyIsUsable) {
  Buffer<double> buffer(0);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.begin(), buffer.end());
  buffer.clear();
  EXPECT_TRUE(std::span<double>(buffer).empty());
  EXPECT_EQ(Buffer<int>().data(), nullptr);
}

TEST(Buffer, MovingHandsOverTheMemory) {
  Buffer<int> a(10);
  a[9] = 7;
  const int* memory = a.data();
  Buffer<int> b(std::move(a));
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b[9], 7);
  EXPECT_EQ(a.size(), 0u);  // what is left is empty, not ten elements of nothing
  a = std::move(b);
  EXPECT_EQ(a.data(), memory);
  EXPECT_EQ(b.size(), 0u);
}

TEST(Buffer, GrowNeverShrinksAndKeepsWhatIsLargeEnough) {
  Buffer<int> buffer(10);
  const int* memory = buffer.data();
  buffer.grow(5);
  EXPECT_EQ(buffer.size(), 10u);
  EXPECT_EQ(buffer.data(), memory);
  buffer.grow(20);
  EXPECT_EQ(buffer.size(), 20u);
}

TEST(Buffer, SpansSeeTheSameElements) {
  Buffer<int> buffer = Buffer<int>::zeros(4);
  const std::span<int> span = buffer;
  span[2] = 5;
  const Buffer<int>& constant = buffer;
  const std::span<const int> view = constant;
  EXPECT_EQ(view[2], 5);
  EXPECT_EQ(view.size(), 4u);
}

TEST(Buffer, ImpossibleSizesAreAnError) {
  EXPECT_THROW(Buffer<double>(std::numeric_limits<std::size_t>::max()), Error);
  EXPECT_THROW(Buffer<double>(std::numeric_limits<std::size_t>::max() / 8 + 2), Error);  // the product wraps to 8
}

}  // namespace
}  // namespace reel
