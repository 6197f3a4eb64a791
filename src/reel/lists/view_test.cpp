#include "reel/lists/view.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/lists/testing.h"

namespace reel::lists {
namespace {

// What a view shows, written out.
KeyLists copied(const ListsView& view) {
  KeyListsBuilder builder(view.batch(), view.heads(), view.keys(),
                          {view.group_starts().begin(), view.group_starts().end()});
  std::vector<std::int32_t> tokens;
  for (std::int64_t b = 0; b < view.batch(); ++b) {
    for (std::int64_t h = 0; h < view.heads(); ++h) {
      if (view.dense(b, h)) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < view.groups(); ++g) {
        view.tokens(b, h, g, tokens);
        EXPECT_EQ(view.tokens(b, h, g), static_cast<std::int64_t>(tokens.size()));
        builder.add(tokens);
      }
    }
  }
  KeyLists lists = builder.finish();
  EXPECT_EQ(view.pairs(), lists.pairs());
  return lists;
}

void expect_part(const ListsView& view, const KeyLists& all, const testing::Part& part) {
  EXPECT_TRUE(testing::same(copied(view), testing::copied_part(all, part)));
}

// Groups of 5 and a last one of 3; 150 keys are two tiles and a short one.
KeyLists some_lists(int granularity) {
  const KeyLists random = random_lists(3, 4, 150, uniform_groups(23, 5), 0.4, granularity, 11);
  KeyListsBuilder builder(3, 4, 150, random.group_starts, granularity);
  for (std::int64_t i = 0; i < 12; ++i) {
    if (i % 5 == 1) {
      builder.add_dense_head();
      continue;
    }
    for (std::int64_t g = 0; g < 5; ++g)
      builder.add(g == 3 ? std::span<const std::int32_t>() : random.list(i / 4, i % 4, g));
  }
  return builder.finish();
}

TEST(ListsView, OfTheWholeIsTheWhole) {
  for (const int granularity : {1, kTileKeys}) {
    const KeyLists all = some_lists(granularity);
    expect_part(all, all, {{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, 0, 23, 0, 150});
  }
}

TEST(ListsView, RangesMayCutThroughGroupsAndTiles) {
  for (const int granularity : {1, kTileKeys}) {
    const KeyLists all = some_lists(granularity);
    for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 23}, {3, 14}, {5, 10}, {7, 8}, {7, 7}}) {
      for (const auto& [begin, end] :
           {std::pair<std::int64_t, std::int64_t>{0, 150}, {0, 64}, {1, 150}, {63, 65}, {70, 80}, {130, 150}, {9, 9}}) {
        SCOPED_TRACE(fmt::format("queries {} to {}, keys {} to {}", first, last, begin, end));
        const testing::Part part = {{1, 2}, {0, 1, 2}, {0, 1, 2, 3, 4}, first, last, begin, end};
        const ListsView view = ListsView(all).some_items(1, 3).some_heads(0, 3);
        expect_part(view.some_queries(first, last).some_keys(begin, end), all, part);
        expect_part(view.some_keys(begin, end).some_queries(first, last), all, part);
      }
    }
  }
}

TEST(ListsView, IndexListsMayChooseInAnyOrder) {
  const KeyLists all = some_lists(1);
  const std::vector<std::int32_t> items = {2, 0}, heads = {3, 1}, groups = {4, 0, 2};  // 3 + 5 + 5 queries
  const ListsView view = ListsView(all).some_items(items).some_heads(heads).some_groups(groups);
  expect_part(view, all, {items, heads, groups, 0, 13, 0, 150});
  expect_part(view.some_queries(2, 9), all, {items, heads, groups, 2, 9, 0, 150});
  EXPECT_EQ(ListsView(all).some_heads(std::vector<std::int32_t>{}).pairs(), 0);
}

TEST(ListsView, PartsOfPartsAreParts) {
  for (const int granularity : {1, kTileKeys}) {
    const KeyLists all = some_lists(granularity);
    const ListsView part = ListsView(all).some_queries(3, 20).some_keys(10, 140).some_heads(1, 4).some_items(1, 3);
    expect_part(part.some_keys(57, 127).some_queries(4, 11).some_heads(1, 2).some_items(1, 2), all,
                {{2}, {2}, {0, 1, 2, 3, 4}, 7, 14, 67, 137});
  }
}

TEST(ListsView, WithoutListsEveryPartMeansAllKeys) {
  const std::shared_ptr<const KeyLists> none;
  EXPECT_FALSE(ListsView(none));
  EXPECT_FALSE(ListsView(nullptr).some_items(0, 1).some_heads(2, 3).some_queries(4, 5).some_keys(6, 7));
}

TEST(ListsView, ListsOfItsOwnLiveAsLongAsItsParts) {
  const KeyLists all = some_lists(1);
  auto shared = std::make_shared<const KeyLists>(all);
  const ListsView part = ListsView(std::move(shared)).some_heads(1, 2),
                  moved = ListsView(some_lists(1)).some_heads(1, 2);
  EXPECT_TRUE(testing::same(copied(part), copied(moved)));
}

TEST(ListsView, IsOfCheckedListsAndOfPartsInside) {
  KeyLists bad = some_lists(1);
  bad.keys.front() = 150;
  EXPECT_NE(message_of([&] { ListsView{bad}; }).find("names key 150 of 150"), std::string::npos);
  EXPECT_THROW(ListsView{std::move(bad)}, Error);
  const KeyLists all = some_lists(1);
  const ListsView view = all;
  EXPECT_DEATH(view.some_keys(0, 151), "end <= keys");
  EXPECT_DEATH(view.some_keys(10, 100).some_keys(0, 91), "end <= keys");
  EXPECT_DEATH(view.some_queries(5, 4), "begin <= end");
  EXPECT_DEATH(view.some_heads(-1, 2), "begin >= 0");
  EXPECT_DEATH(view.some_groups(std::vector<std::int32_t>{5}), "size");
}

}  // namespace
}  // namespace reel::lists
