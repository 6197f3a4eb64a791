#include "reel/attention/attention.h"

#include <gtest/gtest.h>

#include <cstring>

#include "reel/attention/cut_blocks.h"
#include "reel/attention/testing.h"

namespace reel::attention {
namespace {

// f32 arithmetic with d <= 256 and some thousand keys stays well below 1e-5 of the largest value (2e-6 is usual).
constexpr double kTolerance = 1e-5;

using kernels::testing::for_every_target;

// A query with one key has dq = 0 by cancellation, exactly in theory and up to the rounding of its terms here. So
// gradients are held to the largest value of all three.
void expect_gradients_match(Problem& p, const ReferenceResult& want) {
  const double largest = std::max({largest_of(want.dq), largest_of(want.dk), largest_of(want.dv)});
  EXPECT_LE(difference(p, p.gradients().dq, p.shape.queries, want.dq), kTolerance * largest);
  EXPECT_LE(difference(p, p.gradients().dk, p.shape.keys, want.dk), kTolerance * largest);
  EXPECT_LE(difference(p, p.gradients().dv, p.shape.keys, want.dv), kTolerance * largest);
}

void expect_matches_reference(Problem& p, const lists::KeyLists& lists, Threads& threads) {
  forward(p.input(), lists, p.partial(), threads);
  backward(p.input(), lists, p.gradients(), threads);
  auto want = reference_forward(p.input(), lists);
  reference_backward(p.input(), lists, p.gradients().dout, want);
  EXPECT_LE(difference(p, p.partial().out, p.shape.queries, want.out), kTolerance * largest_of(want.out));
  EXPECT_LE(lse_difference(p.lse, want.lse), kTolerance);
  expect_gradients_match(p, want);
}

TEST(Attention, RandomCasesMatchTheReferenceOnEveryTarget) {
  for_every_target([] {
    Threads threads(2);
    const Random random(test_seed(), 5);
    std::uint64_t draw = 0;
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(n)));
    };
    for (int i = 0; i < 1000 && !testing::Test::HasFailure(); ++i) {
      // Mostly small, sometimes several steps and blocks long.
      const std::int64_t most = i % 16 == 0 ? 260 : 48;
      const Shape shape{1 + below(2), 1 + below(3), 1 + below(most), 1 + below(most),
                        8 * (1 + below(i % 8 == 0 ? 32 : 12))};
      Problem p(shape, test_seed() * 10000 + static_cast<std::uint64_t>(i), below(2) == 0, 8 * below(3));
      const lists::KeyLists lists = lists::testing::mixed_lists(shape.batch, shape.heads, shape.queries, shape.keys,
                                                                i % 4 == 3 ? lists::kTileKeys : 1,
                                                                test_seed() * 10000 + static_cast<std::uint64_t>(i));
      SCOPED_TRACE(fmt::format("REEL_TEST_SEED={}, case {}: batch {} heads {} queries {} keys {} head_dim {}",
                               test_seed(), i, shape.batch, shape.heads, shape.queries, shape.keys, shape.head_dim));
      expect_matches_reference(p, lists, threads);
    }
  });
}

TEST(Attention, DenseMatchesTheReferenceForTheHeadDimsOfModels) {
  Threads threads(2);
  for (std::int64_t d : {64, 72, 96, 128, 256}) {
    for (std::int64_t tokens : {129, 333}) {
      Problem p({1, 2, tokens, tokens + 50, d}, 3);
      SCOPED_TRACE(fmt::format("head_dim {}, {} tokens", d, tokens));
      expect_matches_reference(p, lists::dense_lists(1, 2, tokens, tokens + 50), threads);
      Problem direct({1, 2, tokens, tokens + 50, d}, 3);
      forward(direct.input(), {}, direct.partial(), threads);
      backward(direct.input(), {}, direct.gradients(), threads);
      EXPECT_EQ(std::memcmp(p.out.data(), direct.out.data(), p.out.size() * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(p.dk.data(), direct.dk.data(), p.dk.size() * sizeof(float)), 0);
    }
  }
}

// A head of several blocks, on every instruction set.
TEST(Attention, LongDenseHeadsMatchTheReference) {
  for_every_target([] {
    Threads threads(2);
    Problem p({1, 3, 1100, 130, 24}, 3);
    expect_matches_reference(p, lists::dense_lists(1, 3, 1100, 130), threads);
  });
}

TEST(Attention, OneShortHeadHasWorkForManyThreads) {
  EXPECT_GE(cut_forward({1, 1, 1024, 100000, 64}, {}).units.size(), 8u);
  EXPECT_GE(cut_forward({1, 1, 2048, 2048, 64}, {}).units.size(), 16u);
  EXPECT_EQ(cut_forward({1, 4, 8192, 8192, 64}, {}).units.size(), 64u);  // as long as they may be
}

// A link starves while one block of queries runs over thousands of keys, so messages are looked after in between.
TEST(Attention, OneLongBlockPollsManyTimes) {
  Threads threads(1);
  int polls = 0;
  threads.set_poll([&] { ++polls; });
  Problem p({1, 1, 64, 1920, 64}, 3);
  forward(p.input(), {}, p.partial(), threads);
  EXPECT_GE(polls, 10);
  polls = 0;
  backward(p.input(), {}, p.gradients(), threads);
  EXPECT_GE(polls, 10);
}

// Forward copies rows that many blocks read and that do not lie side by side.
TEST(Attention, RowsThatManyBlocksReadMatchTheReference) {
  const Shape shape{2, 3, 600, 700, 32};
  const lists::KeyLists lists = lists::random_lists(2, 3, shape.keys, lists::uniform_groups(600, 20), 0.4, 1, 5);
  Threads threads(2);
  for (const bool token_major : {true, false}) {
    Problem p(shape, 13, token_major);
    expect_matches_reference(p, lists, threads);
  }
}

// Rows of a token beside each other (token-major) are copied for each range, those of a head are used in place.
void expect_ranges_match_the_reference(std::int64_t head_dim, bool token_major) {
  SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << (token_major ? ", token-major" : ", head-major"));
  const Shape shape{1, 2, 420, 1601, head_dim};
  lists::KeyListsBuilder builder(1, 2, shape.keys, {0, 200, 210, 420});
  builder.add_dense_head();
  std::vector<std::int32_t> all, early;
  for (std::int32_t key = 0; key < 1601; ++key) {
    if (key % 17 != 3) all.push_back(key);
    if (key < 20) early.push_back(key);  // none in the last range
  }
  for (const auto* list : {&all, &early, &all}) builder.add(*list);
  const lists::KeyLists lists = builder.finish();
  for (const Unit& unit : cut_backward(shape, lists).units) ASSERT_EQ(unit.ranges, 2);
  Threads threads(2);
  Problem p(shape, 12, token_major);
  expect_matches_reference(p, lists, threads);

  Problem twice(shape, 12, token_major);
  forward(twice.input(), lists, twice.partial(), threads);
  backward(twice.input(), lists, twice.gradients(), threads);
  backward(twice.input(), lists, twice.gradients(true), threads);
  for (auto member : {&Problem::dq, &Problem::dk, &Problem::dv}) {
    for (std::size_t i = 0; i < (p.*member).size(); ++i) {
      ASSERT_NEAR((twice.*member)[i], 2 * (p.*member)[i], 1e-5) << i;
    }
  }
}

// Forward takes keys in ranges where those of a head are many; sums and maxima go from one range to the next.
TEST(Attention, ForwardKeysInSeveralRangesMatchTheReference) {
  const Shape shape{1, 2, 70, 5000, 256};
  lists::KeyListsBuilder builder(1, 2, shape.keys, {0, 33, 41, 70});
  builder.add_dense_head();
  std::vector<std::int32_t> most, early, late;
  for (std::int32_t key = 0; key < 5000; ++key) {
    if (key % 7 != 3) most.push_back(key);
    if (key % 2 == 0 && key < 1200) early.push_back(key);  // the ranges that follow have none of them
    if (key > 4500) late.push_back(key);                   // nor those before
  }
  for (const auto* list : {&most, &early, &late}) builder.add(*list);
  const lists::KeyLists lists = builder.finish();
  std::vector<std::int64_t> ranges;
  for (const Unit& unit : cut_forward(shape, lists).units) ranges.push_back(unit.ranges);
  ASSERT_GE(*std::max_element(ranges.begin(), ranges.end()), 2);
  Threads threads(2);
  for (const bool token_major : {false, true}) {
    Problem p(shape, 12, token_major);
    expect_matches_reference(p, lists, threads);
  }
}

TEST(Attention, KeysInSeveralRangesMatchTheReference) {
  expect_ranges_match_the_reference(256, false);
  expect_ranges_match_the_reference(248, true);
}

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  // Few heads of very different size: forward and backward cut heads into parts.
  const Shape shape{1, 3, 1300, 1300, 40};
  lists::KeyListsBuilder builder(1, 3, 1300, lists::uniform_groups(1300, 64));
  const lists::KeyLists random = lists::random_lists(1, 2, 1300, lists::uniform_groups(1300, 64), 0.2, 1, 9);
  builder.add_dense_head();
  for (std::int64_t i = 0; i < 2 * random.groups(); ++i)
    builder.add(random.list(0, i / random.groups(), i % random.groups()));
  const lists::KeyLists lists = builder.finish();
  Problem one(shape, 4);
  Threads single(1);
  forward(one.input(), lists, one.partial(), single);
  backward(one.input(), lists, one.gradients(), single);
  for (int count : {2, 3, 7}) {
    Problem many(shape, 4);
    Threads threads(count);
    forward(many.input(), lists, many.partial(), threads);
    backward(many.input(), lists, many.gradients(), threads);
    for (auto member : {&Problem::out, &Problem::lse, &Problem::dq, &Problem::dk, &Problem::dv}) {
      EXPECT_EQ(std::memcmp((one.*member).data(), (many.*member).data(), (one.*member).size() * sizeof(float)), 0)
          << count;
    }
  }
}

TEST(Attention, OneKeyGivesItsValueAndNoGradientOfQueriesAndKeys) {
  for_every_target([] {
    Threads threads(1);
    Problem p({2, 3, 37, 1, 72}, 5);
    forward(p.input(), {}, p.partial(), threads);
    backward(p.input(), {}, p.gradients(), threads);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t i = 0; i < 37; ++i) {
          for (std::int64_t c = 0; c < 72; ++c) {
            ASSERT_EQ(p.partial().out.at(b, h, i)[c], p.input().v.at(b, h, 0)[c]);
            ASSERT_EQ(p.gradients().dq.at(b, h, i)[c], 0.0f);
          }
        }
        for (std::int64_t c = 0; c < 72; ++c) ASSERT_EQ(p.gradients().dk.at(b, h, 0)[c], 0.0f);
      }
    }
  });
}

TEST(Attention, EmptyListGivesZeroAndMinusInfinity) {
  Threads threads(1);
  Problem p({1, 1, 5, 7, 16}, 1);
  lists::KeyListsBuilder builder(1, 1, 7, {0, 2, 5});
  builder.add({});
  builder.add(std::vector<std::int32_t>{3});
  const lists::KeyLists lists = builder.finish();
  expect_matches_reference(p, lists, threads);
  for (std::int64_t c = 0; c < 16; ++c) EXPECT_EQ(p.partial().out.at(0, 0, 1)[c], 0.0f);
  EXPECT_EQ(p.lse[1], -std::numeric_limits<float>::infinity());
  for (std::int64_t c = 0; c < 16; ++c) {  // one key: its value itself
    EXPECT_FLOAT_EQ(p.partial().out.at(0, 0, 2)[c], p.input().v.at(0, 0, 3)[c]);
  }
}

TEST(Attention, NoQueriesOrNoKeysOrNoHeadsWork) {
  Threads threads(2);
  for (const Shape& shape : {Shape{1, 2, 0, 9, 8}, Shape{1, 2, 9, 0, 8}, Shape{1, 0, 4, 4, 8}, Shape{0, 3, 4, 4, 8}}) {
    Problem p(shape, 1);
    expect_matches_reference(p, lists::dense_lists(shape.batch, shape.heads, shape.queries, shape.keys), threads);
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for_every_target([] {
    Threads threads(1);
    Problem p({1, 1, 40, 200, 64}, 2);
    p.scale = 1;
    const Input in = p.input();
    // Scores from -1e4 to 1e4: rounding them to f32 alone shifts an exponent by 5e-4, so only the sizes can be
    // compared.
    for (std::int64_t j = 0; j < 200; ++j) {
      for (std::int64_t c = 0; c < 64; ++c)
        p.k[static_cast<std::size_t>(j * 64 + c)] = c == 0 ? (static_cast<float>(j) - 100) : 0;
    }
    for (std::int64_t i = 0; i < 40; ++i) p.q[static_cast<std::size_t>(i * 64)] = i % 2 == 0 ? 100.0f : -100.0f;
    forward(in, {}, p.partial(), threads);
    backward(in, {}, p.gradients(), threads);
    for (auto member : {&Problem::out, &Problem::lse, &Problem::dq, &Problem::dk, &Problem::dv}) {
      for (float x : p.*member) ASSERT_TRUE(std::isfinite(x));
    }
    for (std::int64_t c = 0; c < 64; ++c) {  // neighbouring keys differ by 100 in score: the best takes everything
      EXPECT_FLOAT_EQ(p.partial().out.at(0, 0, 0)[c], in.v.at(0, 0, 199)[c]);
      EXPECT_FLOAT_EQ(p.partial().out.at(0, 0, 1)[c], in.v.at(0, 0, 0)[c]);
    }
    EXPECT_FLOAT_EQ(p.lse[0], 9900.0f);
    EXPECT_FLOAT_EQ(p.lse[1], 10000.0f);
  });
}

TEST(Attention, NanInGivesNanOutAndNowhereElse) {
  for_every_target([] {
    Threads threads(2);
    for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0xffffffffu,
                                     0x7f800123u}) {  // quiet, negative, with payload, signalling
      float nan;
      std::memcpy(&nan, &bits, 4);
      Problem q({1, 1, 70, 150, 24}, 5);
      q.q[3 * 24 + 5] = nan;
      forward(q.input(), {}, q.partial(), threads);
      for (std::int64_t i = 0; i < 70; ++i) {
        for (std::int64_t c = 0; c < 24; ++c) EXPECT_EQ(std::isnan(q.partial().out.at(0, 0, i)[c]), i == 3) << i;
        EXPECT_EQ(std::isnan(q.lse[static_cast<std::size_t>(i)]), i == 3);
      }
      backward(q.input(), {}, q.gradients(), threads);
      EXPECT_TRUE(std::isnan(q.gradients().dq.at(0, 0, 3)[0]));
      EXPECT_TRUE(std::isnan(q.gradients().dk.at(0, 0, 0)[0]));

      Problem k({1, 1, 70, 150, 24}, 5);
      k.k[100 * 24] = nan;
      forward(k.input(), {}, k.partial(), threads);
      for (float x : k.out) EXPECT_TRUE(std::isnan(x));
      Problem v({1, 1, 70, 150, 24}, 5);
      v.v[100 * 24 + 7] = nan;
      forward(v.input(), {}, v.partial(), threads);
      for (std::size_t i = 0; i < v.out.size(); ++i) EXPECT_EQ(std::isnan(v.out[i]), i % 24 == 7);
    }
  });
}

TEST(Attention, PartsOfTheKeysMergeToTheWhole) {
  Threads threads(2);
  const Shape shape{2, 2, 90, 200, 32};
  const lists::KeyLists lists = lists::testing::mixed_lists(shape.batch, shape.heads, shape.queries, shape.keys, 1, 12);
  Problem whole(shape, 6);
  forward(whole.input(), lists, whole.partial(), threads);
  backward(whole.input(), lists, whole.gradients(), threads);
  auto want = reference_forward(whole.input(), lists);
  reference_backward(whole.input(), lists, whole.gradients().dout, want);

  // As a ring does: keys in uneven pieces, one of them empty; gradients with the merged lse, added up.
  const lists::ListsView view = lists;
  Problem ring(shape, 6), step(shape, 6);
  const std::int64_t cuts[] = {0, 64, 64, 130, 200};
  const auto piece = [&](std::int64_t begin, std::int64_t end) {
    Input in = ring.input();
    in.shape.keys = end - begin;
    in.k.data = in.k.at(0, 0, begin), in.v.data = in.v.at(0, 0, begin);
    return in;
  };
  for (int i = 0; i < 4; ++i) {
    const Partial result = i == 0 ? ring.partial() : step.partial();
    forward(piece(cuts[i], cuts[i + 1]), view.some_keys(cuts[i], cuts[i + 1]), result, threads);
    if (i > 0) merge(shape, ring.partial(), step.partial(), threads);
  }
  EXPECT_LE(difference(ring, ring.partial().out, 90, want.out), kTolerance * largest_of(want.out));
  EXPECT_LE(lse_difference(ring.lse, want.lse), kTolerance);
  for (Array* each : {&ring.dq, &ring.dk, &ring.dv}) std::fill(each->begin(), each->end(), 0.0f);
  for (int i = 0; i < 4; ++i) {
    Gradients g = ring.gradients(true);
    g.dk.data = g.dk.at(0, 0, cuts[i]), g.dv.data = g.dv.at(0, 0, cuts[i]);
    backward(piece(cuts[i], cuts[i + 1]), view.some_keys(cuts[i], cuts[i + 1]), g, threads);
  }
  expect_gradients_match(ring, want);
}

// A part of the lists, written out for comparison: ranges that cut groups and tiles, heads in another order.
TEST(Attention, ViewsGiveTheBitsOfTheirListsWrittenOut) {
  Threads threads(2);
  const std::vector<std::int32_t> items = {1}, heads = {3, 0, 2};
  for (const int granularity : {1, lists::kTileKeys}) {
    const lists::KeyLists all = lists::testing::mixed_lists(2, 4, 400, 1000, granularity, 8);
    std::vector<std::int32_t> groups;
    for (std::int32_t g = 0; g < all.groups(); ++g) groups.push_back(g);
    for (const auto& [begin, end] :
         {std::pair<std::int64_t, std::int64_t>{0, 1000}, {0, 640}, {100, 900}, {330, 340}, {500, 500}}) {
      const lists::testing::Part part = {items, heads, groups, 30, 390, begin, end};
      const lists::ListsView view =
          lists::ListsView(all).some_items(items).some_heads(heads).some_queries(30, 390).some_keys(begin, end);
      const lists::ListsView copied = lists::testing::copied_part(all, part);
      Problem a({1, 3, 360, end - begin, 64}, 9), b({1, 3, 360, end - begin, 64}, 9);
      for (auto& [p, lists] : {std::pair<Problem*, const lists::ListsView*>{&a, &view}, {&b, &copied}}) {
        forward(p->input(), *lists, p->partial(), threads);
        backward(p->input(), *lists, p->gradients(), threads);
      }
      for (auto member : {&Problem::out, &Problem::lse, &Problem::dq, &Problem::dk, &Problem::dv}) {
        const Array &got = a.*member, &want = b.*member;
        ASSERT_EQ(got.size(), want.size());
        EXPECT_TRUE(got.size() == 0 || std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0)
            << "granularity " << granularity << ", keys " << begin << " to " << end;
      }
    }
  }
}

TEST(Attention, MergeGivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shape{2, 2, 700, 9, 16};
  Problem one(shape, 1), many(shape, 1), other(shape, 2);
  Threads single(1), threads(3);
  merge(shape, one.partial(), other.partial(), single);
  merge(shape, many.partial(), other.partial(), threads);
  EXPECT_EQ(std::memcmp(one.out.data(), many.out.data(), one.out.size() * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(one.lse.data(), many.lse.data(), one.lse.size() * sizeof(float)), 0);
}

TEST(Attention, MergeWithNothingKeepsTheBits) {
  Threads threads(1);
  const Shape shape{1, 1, 4, 8, 16};
  Problem a(shape, 1), nothing(shape, 2), copy(shape, 1);
  forward(a.input(), {}, a.partial(), threads);
  forward(copy.input(), {}, copy.partial(), threads);
  forward(nothing.input(), lists::dense_lists(1, 1, 4, 8), nothing.partial(), threads);
  lists::KeyListsBuilder builder(1, 1, 8, {0, 4});
  builder.add({});
  forward(nothing.input(), builder.finish(), nothing.partial(), threads);
  merge(shape, a.partial(), nothing.partial(), threads);
  EXPECT_EQ(std::memcmp(a.out.data(), copy.out.data(), a.out.size() * sizeof(float)), 0);
  merge(shape, nothing.partial(), a.partial(), threads);
  EXPECT_EQ(std::memcmp(nothing.out.data(), copy.out.data(), a.out.size() * sizeof(float)), 0);
  EXPECT_EQ(nothing.lse[0], copy.lse[0]);
}

TEST(Attention, ImpossibleShapesAndStridesAreErrorsWithAHint) {
  Threads threads(1);
  const auto hint_of = [&](const Shape& shape, const lists::KeyLists& lists) -> std::string {
    Problem p({1, 2, 10, 10, 256}, 1);
    Input in = p.input();
    in.shape = shape;
    try {
      forward(in, lists, p.partial(), threads);
    } catch (const Error& error) {
      return error.hint();
    }
    return "";
  };
  const lists::KeyLists fits = lists::dense_lists(1, 2, 10, 10);
  EXPECT_EQ(hint_of({1, 2, 10, 10, 64}, fits), "");
  for (std::int64_t d : {0, 4, 60, 264, -8}) EXPECT_NE(hint_of({1, 2, 10, 10, d}, fits), "") << d;
  EXPECT_NE(hint_of({1, 3, 10, 10, 64}, fits), "");
  EXPECT_NE(hint_of({2, 2, 10, 10, 64}, fits), "");
  EXPECT_NE(hint_of({1, 2, 9, 10, 64}, fits), "");
  EXPECT_NE(hint_of({1, 2, 10, 9, 64}, fits), "");
  EXPECT_NE(hint_of({1, 2, -1, 10, 64}, fits), "");
  Problem p({1, 2, 10, 10, 64}, 1);
  lists::KeyLists outside = lists::random_lists(1, 2, 10, {0, 10}, 0.5, 1, 1);
  outside.keys.back() = 10;
  EXPECT_THROW(forward(p.input(), outside, p.partial(), threads), Error);
  EXPECT_THROW(backward(p.input(), outside, p.gradients(), threads), Error);
  Input in = p.input();
  in.k.row = 32;
  const auto hint = [](const auto& work) {
    const std::string message = message_of(work);
    return message.substr(std::min(message.size(), message.find(" | ") + 3));
  };
  EXPECT_NE(hint([&] { forward(in, {}, p.partial(), threads); }), "");
  in = p.input();
  in.v.data = nullptr;
  EXPECT_NE(hint([&] { forward(in, {}, p.partial(), threads); }), "");
  const Partial no_lse{p.partial().out, nullptr};
  EXPECT_NE(hint([&] { forward(p.input(), {}, no_lse, threads); }), "");
  EXPECT_NE(hint([&] { merge(p.shape, p.partial(), no_lse, threads); }), "");
  EXPECT_NE(hint([&] { merge(p.shape, no_lse, p.partial(), threads); }), "");
  EXPECT_NE(hint([&] { merge({1, -2, 10, 10, 64}, p.partial(), p.partial(), threads); }), "");
  Gradients gradients = p.gradients();
  gradients.lse = nullptr;
  EXPECT_NE(hint([&] { backward(p.input(), {}, gradients, threads); }), "");
}

}  // namespace
}  // namespace reel::attention
