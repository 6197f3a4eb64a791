#include "reel/predict/hidden_pick.h"

#include <gtest/gtest.h>

#include "reel/base/random.h"

namespace reel::predict {
namespace {

constexpr ModelHeads kPickShape{1, 3, 8};  // the third head is not turned
constexpr std::int64_t kPickTokens = 300, kPickWidth = 24;

using Picked = std::vector<std::int32_t>;

// Queries of size one and keys of size 0.1, but for what a test changes.
struct Numbers {
  Numbers() : q(kPickTokens * kPickWidth), k(kPickTokens * kPickWidth), angles(kernels::rope_1d(10, 8, 20)) {
    Random(1).fill_normal(q);
    Random(2).fill_normal(k);
    for (float& value : k) value *= 0.1f;
    angles->heads = 2;
  }
  static void scale(std::vector<float>& x, std::int64_t head, std::int64_t number, float by, float plus = 0) {
    for (std::int64_t t = 0; t < kPickTokens; ++t) {
      float& value = x[static_cast<std::size_t>(t * kPickWidth + head * 8 + number)];
      value = by * value + plus;
    }
  }
  std::vector<float> seen() const { return energies(q.data(), k.data(), kPickTokens, angles.get(), kPickShape); }
  Picked picks(std::int64_t rank) const { return pick(seen(), angles.get(), kPickShape, rank); }
  std::vector<std::size_t> picks_again(Picked& picked) const {
    return pick_again(seen(), angles.get(), kPickShape, picked);
  }

  std::vector<float> q, k;
  std::shared_ptr<kernels::RopeAngles> angles;
};

TEST(Pick, TakesWhatChangesTheScoresFromKeyToKey) {
  Numbers x;
  Numbers::scale(x.k, 0, 3, 20);     // pair 1 of head 0, by one of its numbers
  Numbers::scale(x.k, 0, 4, 1, 50);  // large, and the same for all keys
  Numbers::scale(x.q, 1, 7, 20);     // pair 3 of head 1, by its queries
  Numbers::scale(x.k, 2, 6, 20);     // single numbers of head 2
  Numbers::scale(x.q, 2, 1, 10);
  EXPECT_EQ(x.picks(2), (Picked{2, 3, 6, 7, 6, 1}));
  x.angles->pairing = kernels::Pairing::kHalves;  // 3 and 7 are a pair now
  EXPECT_EQ(x.picks(2), (Picked{3, 7, 3, 7, 6, 1}));
}

TEST(Pick, ExchangesPairsThatHaveComeToCountMuchLess) {
  Numbers x;
  Numbers::scale(x.k, 0, 2, 4);  // pair 1 of head 0, and pair 2 about as strong
  Numbers::scale(x.k, 0, 5, 4.2f);
  Numbers::scale(x.k, 1, 1, 9);
  Numbers::scale(x.k, 1, 7, 8);
  Numbers::scale(x.k, 2, 6, 20);
  Picked picked = {2, 3, 0, 1, 4, 5, 6, 7, 0, 1, 2, 3};
  // Head 0: pair 2 for pair 0, in its place. Head 1: pair 0 for pair 2; pair 3 stays. Head 2 is not turned.
  EXPECT_EQ(x.picks_again(picked), (std::vector<std::size_t>{2, 3, 4, 5}));
  EXPECT_EQ(picked, (Picked{2, 3, 4, 5, 0, 1, 6, 7, 0, 1, 2, 3}));
  EXPECT_TRUE(x.picks_again(picked).empty());
  Numbers::scale(x.k, 0, 1, 4.3f);  // a little stronger than either: no reason to forget what was learnt
  EXPECT_TRUE(x.picks_again(picked).empty());
}

}  // namespace
}  // namespace reel::predict
