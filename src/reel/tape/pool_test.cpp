#include "reel/tape/pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace reel::tape {
namespace {

TEST(Pool, HandsBackTheSameMemory) {
  Pool pool;
  const float* first = pool.take(100)->data();
  EXPECT_EQ(pool.take(100)->data(), first);
  EXPECT_EQ(pool.take(112)->data(), first);  // 100 is rounded up to 112, a multiple of a cache line
  EXPECT_EQ(pool.held_bytes(), 112 * sizeof(float));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kBufferAlignment, 0u);
}

TEST(Pool, UsesWhatIsUpToAnEighthLarger) {
  for (const bool fits : {false, true}) {
    Pool pool;
    const auto keeps_the_pool_busy = pool.take(100000);
    const float* larger = pool.take(fits ? 1152 : 1168)->data();
    EXPECT_EQ(pool.take(1024)->data() == larger, fits);
    EXPECT_EQ(pool.take(1280)->data() == larger, false);
  }
}

TEST(Pool, TwoTensorsNeverShareMemory) {
  Pool pool;
  std::vector<std::shared_ptr<Pool::Block>> blocks;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(pool.take(32));
    if (i % 3 == 2) blocks.erase(blocks.begin());
    std::fill_n(blocks.back()->data(), 32, static_cast<float>(i));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(blocks[i]->data(), blocks[j]->data());
  }
}

TEST(Pool, CountsWhatIsUsedHeldAndTheMost) {
  for (const bool ghost : {false, true}) {
    Pool pool(ghost);
    EXPECT_EQ(pool.ghost(), ghost);
    auto a = pool.take(256), b = pool.take(512);
    EXPECT_EQ(a->data() == nullptr, ghost);
    EXPECT_EQ(pool.live_bytes(), 768 * sizeof(float));
    a.reset();
    EXPECT_EQ(pool.live_bytes(), 512 * sizeof(float));
    EXPECT_EQ(pool.held_bytes(), 768 * sizeof(float));
    a = pool.take(240);  // takes the larger one, and counts it as what it is
    EXPECT_EQ(pool.live_bytes(), 768 * sizeof(float));
    EXPECT_EQ(pool.peak_bytes(), 768 * sizeof(float));
    a.reset(), b.reset();
    EXPECT_EQ(pool.live_bytes(), 0u);
    EXPECT_EQ(pool.held_bytes(), 768 * sizeof(float));
    pool.trim();
    EXPECT_EQ(pool.held_bytes(), 0u);
    EXPECT_EQ(pool.peak_bytes(), 768 * sizeof(float));
    pool.reset_peak();
    EXPECT_EQ(pool.peak_bytes(), 0u);
  }
}

// Otherwise a change of sizes would hold the sum of the old and the new.
TEST(Pool, GivesBackWhatIsUnusedBeforeItGrows) {
  Pool pool;
  pool.take(1 << 16);
  const auto other = pool.take(1 << 14);
  EXPECT_EQ(pool.held_bytes(), (1 << 14) * sizeof(float));
  EXPECT_EQ(pool.peak_bytes(), (1 << 16) * sizeof(float));
  pool.take(1 << 10);
  const auto small = pool.take(1 << 9);  // a seventeenth is unused: that may stay
  EXPECT_EQ(pool.held_bytes(), ((1 << 14) + (1 << 10) + (1 << 9)) * sizeof(float));
}

TEST(Pool, NothingIsABlockToo) {
  Pool pool;
  const auto empty = pool.take(0), again = pool.take(0);
  EXPECT_EQ(pool.live_bytes(), 0u);
}

TEST(Pool, MustOutliveItsBlocks) {
  EXPECT_DEATH(
      {
        auto pool = std::make_unique<Pool>();
        const auto block = pool->take(1);
        pool.reset();
      },
      "live_ == 0");
}

}  // namespace
}  // namespace reel::tape
