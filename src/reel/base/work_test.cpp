#include "reel/base/work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace reel {
namespace {

using work::Attention;

// Numbers of multiply-adds and of arrays, written out.
TEST(Work, ArithmeticAndBytesFollowFromTheSizes) {
  for (const work::Form form : {work::Form::kXWt, work::Form::kDyW, work::Form::kDytX}) {
    const Work product{work::Product{form, 10, 20, 30}};
    EXPECT_EQ(flops(product), 2 * 10 * 20 * 30);
    EXPECT_EQ(bytes(product), 4 * (10 * 30 + 20 * 30 + 10 * 20));
  }
  const Work sweep{work::Sweep{"norm", 100, 8, 3}};
  EXPECT_EQ(flops(sweep), 800);
  EXPECT_EQ(bytes(sweep), 1200);
  const Work choice{work::Selection{work::Selection::Kind::kChoice, 6, 100, 32}};
  EXPECT_EQ(flops(choice), 2 * 6 * 100 * 32);
  EXPECT_EQ(bytes(choice), 4 * (6 * 32 + 100 * 32 + 2 * 6 * 100));
  EXPECT_EQ(bytes({work::Selection{work::Selection::Kind::kProfile, 0, 100, 32}}), 0) << "nothing was looked at";
}

// Forward is two products of queries and keys, backward five; the pairs that lists leave out cost no arithmetic.
TEST(Work, AttentionCountsThePairsThatAreComputed) {
  Attention a{.batch = 2, .heads = 3, .queries = 10, .keys = 7, .head_dim = 64, .pairs = 2 * 3 * 10 * 7};
  EXPECT_EQ(flops({a}), 2 * 2 * 420 * 64);
  EXPECT_EQ(bytes({a}), 4.0 * 2 * 3 * 64 * (2 * 10 + 2 * 7)) << "q, out, k, v";
  const double dense = flops({a});
  a.pairs = 42, a.groups = 5;
  EXPECT_EQ(flops({a}), dense / 10);
  a.direction = Attention::Direction::kBackward;
  EXPECT_EQ(flops({a}), 2.5 * dense / 10);
  EXPECT_EQ(bytes({a}), 4.0 * 2 * 3 * 64 * (4 * 10 + 4 * 7)) << "the same and the gradient of each";
}

TEST(Work, NumbersOfTwoBytesHalveTheBytes) {
  Work product{work::Product{work::Form::kXWt, 10, 20, 30}};
  const double f32 = bytes(product), arithmetic = flops(product);
  product.precision = Precision::kBf16;
  EXPECT_EQ(bytes(product), f32) << "what is computed in bf16 may lie in memory as f32";
  product.element = Element::kBf16;
  EXPECT_EQ(bytes(product), f32 / 2);
  EXPECT_EQ(flops(product), arithmetic);
}

TEST(Work, AnExchangeIsItsBytesAndAWaitIsNothingButTime) {
  const work::Exchange exchange{work::Exchange::Kind::kAllToAll, "ulysses", nullptr, 1000};
  Work work{exchange};
  work.element = Element::kBf16;  // bytes are what they are
  EXPECT_EQ(bytes(work), 1000);
  EXPECT_EQ(flops(work), 0);
  EXPECT_EQ(display_name(work), "all_to_all");
  const Work wait{work::Wait{exchange}};
  EXPECT_EQ(bytes(wait), 0);
  EXPECT_EQ(flops(wait), 0);
  EXPECT_EQ(display_name(wait), "wait");
}

// Rows of the meter are sorted by kind, and have always been sorted by name.
TEST(Work, ExchangesAreInTheOrderOfTheirNames) {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(work::Exchange::Kind::kSend); ++kind) {
    names.emplace_back(work::kind_name(static_cast<work::Exchange::Kind>(kind)));
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_STREQ(work::kind_name(work::Exchange::Kind::kReduceScatter), "reduce_scatter");
  EXPECT_STREQ(work::kind_name(work::Exchange::Kind::kBarrier), "barrier");
}

TEST(Work, SelfAttentionCrossAttentionAndProductsAreToldApart) {
  const Work self{Attention{.kind = Attention::Kind::kSelf}}, cross{Attention{.kind = Attention::Kind::kCross}};
  const Work product{work::Product{}}, sweep{work::Sweep{"attention", 1, 1, 1}};
  EXPECT_TRUE(is_self_attention(self));
  EXPECT_TRUE(is_cross_attention(cross));
  EXPECT_TRUE(is_product(product));
  for (const Work* work : {&cross, &product, &sweep}) EXPECT_FALSE(is_self_attention(*work));
  for (const Work* work : {&self, &product, &sweep}) EXPECT_FALSE(is_cross_attention(*work));
  for (const Work* work : {&self, &cross, &sweep}) EXPECT_FALSE(is_product(*work));
  EXPECT_NE(display_name(self), display_name(cross));
}

}  // namespace
}  // namespace reel
