#include "reel/files/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace reel {
namespace {

TEST(Nearest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1);  // swapped neighbours
  EXPECT_EQ(edit_distance("Steps", "sTEPS"), 0);  // case does not count
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> known = {"train", "steps", "batch", "learning_rate"};
  EXPECT_EQ(nearest("stpes", known), "steps");
  EXPECT_EQ(nearest("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest("BATCH", known), "batch");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> known = {"train", "steps", "x"};
  EXPECT_EQ(nearest("optimizer", known), "");
  EXPECT_EQ(nearest("y", known), "");  // one letter of one: a different word, not a slip
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest("steps", {}), "");
  EXPECT_EQ(nearest(std::string(100000, 's'), known), "");
}

TEST(Nearest, TheHintListsWhatIsKnownWhenNothingIsNear) {
  const std::vector<std::string> known = {"train", "steps"};
  EXPECT_EQ(nearest_hint("stesp", known, "keys"), "did you mean 'steps'?");
  EXPECT_EQ(nearest_hint("optimizer", known, "keys"), "known keys: train, steps");
  EXPECT_EQ(nearest_hint("optimizer", {}, "keys"), "there are no keys");
  const std::vector<std::string> many(20, "name");
  EXPECT_NE(nearest_hint("optimizer", many, "keys").find("and 8 more"), std::string::npos);
}

}  // namespace
}  // namespace reel
