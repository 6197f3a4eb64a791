#include "reel/lists/key_lists.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "reel/lists/testing.h"

namespace reel::lists {
namespace {

KeyLists small() {
  KeyListsBuilder builder(1, 2, 10, {0, 3, 4});
  builder.add(std::vector<std::int32_t>{0, 4, 9});
  builder.add(std::vector<std::int32_t>{2});
  builder.add_dense_head();
  return builder.finish();
}

std::string error_of(const std::function<void(KeyLists&)>& spoil) {
  KeyLists lists = small();
  spoil(lists);
  try {
    lists.check();
  } catch (const Error& error) {
    EXPECT_NE(error.hint(), "") << error.what();
    return error.what();
  }
  return "";
}

TEST(KeyLists, BadListsAreNamed) {
  EXPECT_EQ(error_of([](KeyLists&) {}), "");
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.keys[2] = 10; }), "head 0, group 0 names key 10 of 10"));
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.keys[0] = -1; }), "names key -1"));
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.keys[0] = 5; }), "not sorted: key 4 after 5"));
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.keys[1] = 0; }), "names key 0 twice"));
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.offsets[1] = 5; }), "offsets go backwards"));
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.offsets.back() = 99; }), "last offset"));
  EXPECT_NE(error_of([](KeyLists& l) { l.offsets[0] = -1; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.offsets.pop_back(); }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.group_starts = {}; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.group_starts = {0, 4, 3}; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.group_starts = {1, 2, 3}; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.dense_heads = {0}; }), "");
  EXPECT_TRUE(contains(error_of([](KeyLists& l) { l.dense_heads = {1, 1}; }), "belongs to a dense head"));
  EXPECT_NE(error_of([](KeyLists& l) { l.granularity = 32; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.keys_tokens = -1; }), "");
  EXPECT_NE(error_of([](KeyLists& l) { l.granularity = 64; }), "");  // ten keys are one tile
  EXPECT_NE(error_of([](KeyLists& l) { l.batch = l.heads = std::int64_t{1} << 32, l.dense_heads.clear(); }), "");
  EXPECT_TRUE(contains(error_of([](KeyLists& l) {
                         l.heads = 3, l.keys_tokens = 0x7fffffff, l.group_starts = {0, 0x7fffffff};
                         l.dense_heads = {1, 1, 1}, l.offsets = {0, 0, 0, 0}, l.keys.clear();
                       }),
                       "2147483647 queries, 2147483647 keys"));
}

TEST(KeyLists, ListsThatCannotBeBuiltAreErrorsFromTheStart) {
  EXPECT_THROW(random_lists(1, 1, 100, {0, 10}, 0.1, 0, 1), Error);
  EXPECT_THROW(random_lists(1, 1, -5, {0, 10}, 0.1, 1, 1), Error);
  EXPECT_THROW(KeyListsBuilder(1, 1, 4, {}), Error);
  KeyListsBuilder builder(1, 2, 10, {0, 4, 8});
  builder.add(std::vector<std::int32_t>{1});
  EXPECT_THROW(builder.add_dense_head(), Error);  // in the middle of a head
  EXPECT_THROW(KeyListsBuilder(-1, 1, 4, {0, 2}), Error);
  EXPECT_THROW(KeyListsBuilder(std::int64_t{1} << 40, std::int64_t{1} << 40, 4, {0, 2}), Error);
}

TEST(KeyLists, BadListsAreNotTurned) {
  for (const auto& spoil : std::vector<std::function<void(KeyLists&)>>{
           [](KeyLists& l) { l.keys[0] = -1; }, [](KeyLists& l) { l.offsets.back() += 3; },
           [](KeyLists& l) { l.group_starts.clear(); }, [](KeyLists& l) { l.granularity = 0; },
           [](KeyLists& l) { l.keys_tokens = -4; }}) {
    KeyLists lists = small();
    spoil(lists);
    EXPECT_THROW(transpose(lists), Error);
  }
}

TEST(KeyLists, CountsPairsAndShortTiles) {
  EXPECT_EQ(small().pairs(0, 0), 3 * 3 + 1 * 1);
  EXPECT_EQ(small().pairs(0, 1), 4 * 10);
  EXPECT_DOUBLE_EQ(small().density(), 50.0 / 80.0);
  KeyListsBuilder builder(1, 1, 100, {0, 2}, 64);
  builder.add(std::vector<std::int32_t>{0, 1});
  EXPECT_EQ(builder.finish().pairs(), 2 * 100);  // the second tile has 36 keys
}

TEST(KeyLists, TokensAreThoseOfTheEntries) {
  std::vector<std::int32_t> tokens = {7};
  small().tokens(0, 1, 0, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) << "all of them for a dense head";
  KeyListsBuilder builder(1, 1, 130, {0, 1, 2}, 64);
  builder.add(std::vector<std::int32_t>{0, 2});
  builder.add({});
  const KeyLists tiles = builder.finish();
  tiles.tokens(0, 0, 0, tokens);
  ASSERT_EQ(tokens.size(), 66u) << "the last tile has two keys";
  EXPECT_EQ(tokens[63], 63);
  EXPECT_EQ(tokens[64], 128);
  EXPECT_EQ(tokens[65], 129);
  tiles.tokens(0, 0, 1, tokens);
  EXPECT_TRUE(tokens.empty());
}

TEST(KeyLists, TransposeNamesTheSamePairs) {
  for (int granularity : {1, 64}) {
    const KeyLists lists = testing::mixed_lists(2, 3, 100, 500, granularity, 3);
    const QueryLists turned = transpose(lists);
    std::set<std::array<std::int64_t, 4>> want, got;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t g = 0; g < lists.groups(); ++g) {
          for (std::int64_t e : lists.list(b, h, g)) want.insert({b, h, g, e});
        }
        for (std::int64_t e = 0; e < turned.entries; ++e) {
          std::int32_t before = -1;
          for (std::int32_t g : turned.list(b, h, e)) {
            EXPECT_GT(g, before);
            before = g;
            got.insert({b, h, g, e});
          }
        }
      }
    }
    EXPECT_EQ(want, got);
    EXPECT_FALSE(want.empty());
  }
}

TEST(KeyLists, RandomListsHaveTheWantedShareAndAreReproducible) {
  const KeyLists a = random_lists(2, 3, 1000, uniform_groups(200, 64), 0.1, 1, 5);
  EXPECT_DOUBLE_EQ(a.density(), 0.1);
  EXPECT_EQ(a.keys, random_lists(2, 3, 1000, uniform_groups(200, 64), 0.1, 1, 5).keys);
  EXPECT_NE(a.keys, random_lists(2, 3, 1000, uniform_groups(200, 64), 0.1, 1, 6).keys);
  EXPECT_THROW(random_lists(1, 1, 10, {0, 1}, 1.5, 1, 1), Error);
}

}  // namespace
}  // namespace reel::lists
