#include "reel/lists/ordered_lists.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/lists/order.h"
#include "reel/lists/testing.h"

namespace reel::lists {
namespace {

class OrderedListsFile : public ::testing::Test {
 protected:
  ~OrderedListsFile() override { std::remove(path_.c_str()); }
  const std::string path_ = ::testing::TempDir() + "reel_ordered_lists_test.safetensors";
};

TEST_F(OrderedListsFile, LoadsAsItWasSaved) {
  const TokenOrder tiles = tile_order({5, 4, 5}, {2, 2, 2});
  for (int granularity : {1, 64}) {
    for (const OrderedLists& lists :
         {OrderedLists(testing::mixed_lists(2, 3, 100, 500, granularity, 8)),
          OrderedLists(testing::mixed_lists(2, 3, 100, 100, granularity, 8), tiles.raster, 96)}) {
      save(lists, path_);
      const OrderedLists loaded = load_key_lists(path_);
      EXPECT_TRUE(testing::same(loaded, lists));
      EXPECT_EQ(loaded.order, lists.order);
      EXPECT_EQ(loaded.head_dim, lists.head_dim);
      EXPECT_EQ(loaded.in_raster_order(), lists.order.empty());
    }
  }
  std::remove(path_.c_str());
  EXPECT_THROW(load_key_lists(path_), Error);
}

TEST_F(OrderedListsFile, AnOrderThatIsNoneIsNamedWithTheFile) {
  const auto message = [&](std::int64_t queries, std::vector<std::int32_t> order, const char* head_dim = "8") {
    const KeyLists lists = dense_lists(1, 1, queries, 4);
    SafetensorsWriter writer;
    const OrderedLists plain(lists);
    add_to(writer, plain);
    writer.add("order", {static_cast<std::int64_t>(order.size())}, std::span(order));
    writer.set_metadata("head_dim", head_dim);
    writer.write(path_);
    return message_of([&] { load_key_lists(path_); });
  };
  const std::string once = " | order names every token once, counted from 0 in raster order";
  EXPECT_EQ(message(4, {3, 1, 2, 0}), "no error");
  EXPECT_EQ(message(4, {3, 1, 2, 1}), path_ + ": order of key lists names token 1 twice" + once);
  EXPECT_EQ(message(4, {3, 1, 2, 4}), path_ + ": order of key lists names token 4 of 4" + once);
  EXPECT_EQ(message(4, {3, 1, 2, -1}), path_ + ": order of key lists names token -1 of 4" + once);
  for (const std::int64_t queries : {4, 5}) {
    EXPECT_NE(message(queries, queries == 4 ? std::vector<std::int32_t>{1, 0} : std::vector<std::int32_t>{1, 0, 2, 3})
                  .find(fmt::format("tokens, there are {} queries and 4 keys", queries)),
              std::string::npos);
  }
  EXPECT_NE(message(4, {0, 1, 2, 3}, "-8").find("heads with -8 floats"), std::string::npos);
  EXPECT_NE(message(4, {0, 1, 2, 3}, "wide").find("metadata 'head_dim' is 'wide'"), std::string::npos);
}

TEST(OrderedLists, NoOrderIsRasterOrder) {
  const KeyLists lists = dense_lists(1, 1, 3, 3);
  const OrderedLists none(lists), raster(lists, {0, 1, 2}), turned(lists, {2, 1, 0});
  EXPECT_TRUE(same_order(none, raster));
  EXPECT_TRUE(same_order(turned, turned));
  EXPECT_FALSE(same_order(none, turned));
  EXPECT_FALSE(same_order(raster, turned));
}

}  // namespace
}  // namespace reel::lists
