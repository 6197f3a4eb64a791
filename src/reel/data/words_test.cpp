#include "reel/data/words.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reel::data {
namespace {

using Words = std::vector<std::string>;

TEST(Words, HashIsThePublishedFnv1a) {  // test vectors of draft-eastlake-fnv, appendix C
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8u);
}

TEST(Words, AreLowerCasedAndWithoutPunctuation) {
  EXPECT_EQ(words_of("A red Square, moving-LEFT!"), (Words{"a", "red", "square", "moving", "left"}));
  EXPECT_EQ(words_of("gr\xc3\xbcn 42"), (Words{"gr\xc3\xbcn", "42"}));
  EXPECT_EQ(words_of(" ,. "), Words{});
}

TEST(Words, AWordHasOneVectorWhereverItStands) {
  std::vector<float> first(3 * 8), second(3 * 8), wide(3 * 16);
  embed_words("red square left", 3, 8, first);
  embed_words("Square", 3, 8, second);
  embed_words("square", 3, 16, wide);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(first[8 + i], second[i]);
    EXPECT_EQ(wide[i], second[i]);
    EXPECT_NE(first[i], first[8 + i]);
  }
}

TEST(Words, TextIsCutAndFilledWithZeros) {
  std::vector<float> all(3 * 4, 7), cut(2 * 4, 7), none(2 * 4, 7);
  embed_words("red square", 3, 4, all);
  embed_words("red square left", 2, 4, cut);
  embed_words("", 2, 4, none);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(all[i], cut[i]);
  for (std::size_t i = 8; i < 12; ++i) EXPECT_EQ(all[i], 0);
  for (const float value : none) EXPECT_EQ(value, 0);
}

TEST(Words, VectorsHaveUnitVariance) {
  const std::size_t width = 4096;  // the standard errors are 1/64 and sqrt(2)/64; five of them are allowed
  std::vector<float> vector(width);
  embed_words("triangle", 1, width, vector);
  double sum = 0, squares = 0;
  for (const float value : vector) sum += value, squares += value * value;
  EXPECT_NEAR(sum / width, 0, 5.0 / 64);
  EXPECT_NEAR(squares / width, 1, 5 * std::sqrt(2) / 64);
}

}  // namespace
}  // namespace reel::data
