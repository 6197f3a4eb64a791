#include <gtest/gtest.h>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using lists::KeyLists;
using lists::KeyListsBuilder;
using testing::Arrays;
using testing::check;
using testing::Tensors;
using Table = std::deque<Parameter>;

void check_attention(const Shape& q, const Shape& k, const std::shared_ptr<const KeyLists>& lists) {
  check([&](Tape& t, const Tensors& x, Table&) { return attention(t, x[0], x[1], x[2], lists); }, {q, k, k}, {},
        [&](const Arrays& x, const Arrays&) { return reference::attention(x[0], x[1], x[2], lists.get()); });
}

TEST(AttentionOperation, AllKeys) {
  check_attention({2, 5, 3, 8}, {2, 7, 3, 8}, nullptr);
  check_attention({1, 1, 1, 16}, {1, 4, 1, 16}, nullptr);
  check_attention({2, 4, 1, 8}, {2, 1, 1, 8}, nullptr);
}

// Groups of 1, 3 and 2 queries; entry 0 has lists of its own for head 0 and a dense head 1, entry 1 the other way
// round.
TEST(AttentionOperation, RaggedGroupsAnEmptyListAndADenseHead) {
  KeyListsBuilder builder(2, 2, 7, {0, 1, 4, 6});
  builder.add(std::vector<std::int32_t>{0, 2, 5, 6});
  builder.add(std::vector<std::int32_t>{});
  builder.add(std::vector<std::int32_t>{3});
  builder.add_dense_head();
  builder.add_dense_head();
  builder.add(std::vector<std::int32_t>{1});
  builder.add(std::vector<std::int32_t>{0, 1, 2, 3, 4, 6});
  builder.add(std::vector<std::int32_t>{2, 4});
  check_attention({2, 6, 2, 8}, {2, 7, 2, 8}, std::make_shared<KeyLists>(builder.finish()));
}

TEST(AttentionOperation, TilesOfKeys) {
  KeyListsBuilder builder(1, 1, 70, {0, 2, 3}, lists::kTileKeys);  // the second tile has 6 keys
  builder.add(std::vector<std::int32_t>{1});
  builder.add(std::vector<std::int32_t>{0, 1});
  check_attention({1, 3, 1, 8}, {1, 70, 1, 8}, std::make_shared<KeyLists>(builder.finish()));
}

TEST(AttentionOperation, PackedKeysOfDifferentNumberAlsoNone) {
  for (const std::vector<std::int64_t>& starts :
       {std::vector<std::int64_t>{0, 4, 4, 5}, {0, 0, 3, 6}, {0, 2, 4, 4}, {0, 0, 0, 0}}) {
    SCOPED_TRACE(fmt::format("starts {}", fmt::join(starts, " ")));
    const Shape keys = {starts.back(), 2, 8};
    check([&](Tape& t, const Tensors& x, Table&) { return cross_attention_packed(t, x[0], x[1], x[2], starts); },
          {{3, 3, 2, 8}, keys, keys}, {},
          [&](const Arrays& x, const Arrays&) { return reference::attention_packed(x[0], x[1], x[2], starts); });
  }
}

// Lists for half of the keys in one head, all keys in the other; of a text, entry 0 has three tokens, entry 1 one.
TEST(AttentionOperation, TheRecordHasThePairsAndTellsSelfFromCross) {
  KeyListsBuilder builder(2, 2, 6, {0, 2, 6});
  for (int b = 0; b < 2; ++b) {
    for (int g = 0; g < 2; ++g) builder.add(std::vector<std::int32_t>{0, 1, 5});
    builder.add_dense_head();
  }
  const auto lists = std::make_shared<KeyLists>(builder.finish());
  Threads threads(1);
  Pool pool;
  Recorder recorder;
  Tape tape(threads, pool, {.gradients = false, .recorder = &recorder});
  const Tensor x = tape.zeros({2, 6, 2, 8}), text = tape.zeros({2, 4, 2, 8}), packed = tape.zeros({4, 2, 8});
  attention(tape, x, x, x, lists);
  attention(tape, x, x, x);
  cross_attention(tape, x, text, text);
  cross_attention_packed(tape, x, packed, packed, {0, 3, 4});
  std::vector<std::string> seen;
  for (const Record& r : recorder.records()) {
    const auto& work = std::get<work::Attention>(r.work.what);
    seen.push_back(fmt::format("{}: {} pairs, {} groups", display_name(r.work), work.pairs, work.groups));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{fmt::format("attention: {} pairs, 2 groups", 2 * (6 * 3 + 6 * 6)),
                                            fmt::format("attention: {} pairs, 0 groups", 2 * 2 * 6 * 6),
                                            fmt::format("cross-attention: {} pairs, 0 groups", 2 * 2 * 6 * 4),
                                            fmt::format("cross-attention: {} pairs, 0 groups", 2 * 6 * 3),
                                            fmt::format("cross-attention: {} pairs, 0 groups", 2 * 6 * 1)}));
}

TEST(AttentionOperation, ShapesThatDoNotFitAreBugs) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {});
  const Tensor q = tape.zeros({2, 3, 2, 8}), narrow = tape.zeros({2, 3, 2, 4}), packed = tape.zeros({4, 2, 8});
  EXPECT_DEATH(attention(tape, q, narrow, narrow), "k.shape");
  EXPECT_DEATH(attention(tape, q, q, narrow), "k.shape");
  for (const std::vector<std::int64_t>& starts : {std::vector<std::int64_t>{1, 2, 4}, {0, 5, 4}, {0, 2, 3}, {0, 4}}) {
    EXPECT_DEATH(cross_attention_packed(tape, q, packed, packed, starts), "starts");
  }
}

// q, k and v of one projection, as models make them.
TEST(AttentionOperation, QueriesKeysAndValuesOfOneTensor) {
  const auto third = [](Tape& t, const Tensor& x, int i) { return slice(t, x, 2, 16 * i, 16).reshaped({2, 4, 2, 8}); };
  const auto reference_third = [](const reference::Array& x, int i) {
    return reference::Array({2, 4, 2, 8}, reference::slice(x, 2, 16 * i, 16).values);
  };
  check([&](Tape& t, const Tensors& x,
            Table&) { return attention(t, third(t, x[0], 0), third(t, x[0], 1), third(t, x[0], 2)); },
        {{2, 4, 48}}, {},
        [&](const Arrays& x, const Arrays&) {
          return reference::attention(reference_third(x[0], 0), reference_third(x[0], 1), reference_third(x[0], 2));
        });
}

}  // namespace
}  // namespace reel::tape
