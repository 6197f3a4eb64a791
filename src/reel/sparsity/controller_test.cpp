#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "reel/files/file.h"
#include "reel/sparsity/chooser.h"
#include "reel/sparsity/testing.h"

namespace reel::sparsity {
namespace {

using kernels::testing::expect_same_bits;
using lists::KeyLists;
using testing::Layer;
using testing::Passes;
using testing::tokens_of;

constexpr Controller::Options kCheap{.break_even = {0.5, 1}};  // sparse pays below half of the keys

// Head 0 looks things up, head 1 does not know where to look.
Layer one_of_each(const Passes& passes, std::uint64_t seed, std::int64_t batch = 1) {
  Layer x = passes.layer(seed, batch);
  x.look_up(passes.order(), 0);
  return x;
}
Layer lookups(const Passes& passes, std::uint64_t seed, std::int64_t batch = 1) {
  Layer x = one_of_each(passes, seed, batch);
  x.look_up(passes.order(), 1);
  return x;
}

TEST(Controller, TurnsAHeadSparseOnceTwoLooksSayThatItPays) {
  Passes passes(Passes::dynamic(), kCheap);
  passes.train(0, one_of_each(passes, 0));
  EXPECT_FALSE(passes.sparse(0)) << "one look, by a predictor that learnt from the same clip";
  EXPECT_TRUE(passes.lists[0].dense(0, 0));
  EXPECT_EQ(passes.kept_share(), 1);
  const Layer x = one_of_each(passes, 1);
  passes.train(1, x);
  EXPECT_TRUE(passes.sparse(0));
  EXPECT_FALSE(passes.sparse(1)) << "needs most of the keys: " << passes.controller().head(0, 1).needed_predicted;
  EXPECT_EQ(passes.controller().sparse_share(), 0.25) << "1 of 4 heads; layer 1 was never seen";
  const KeyLists& lists = passes.lists[0];
  ASSERT_FALSE(lists.dense(0, 0));
  EXPECT_TRUE(lists.dense(0, 1));
  EXPECT_NEAR(passes.kept_share(), lists.density(), 1e-12);
  EXPECT_LT(lists.density(), 0.7);
  for (std::int64_t g = 0; g < 8; ++g) {
    const auto tokens = tokens_of(lists, 0, 0, g);
    EXPECT_TRUE(tokens.contains(x.wanted(0, 0, g))) << g;
    for (std::int64_t own = 64 * g; own < 64 * (g + 1); ++own) EXPECT_TRUE(tokens.contains(own)) << g;
  }
}

TEST(Controller, StaysDenseWhereSparseWouldBeSlower) {
  SparsityConfig config = Passes::dynamic();
  config.break_even = 0.1;  // the own tile alone is an eighth
  Passes passes(config, kCheap);
  for (int step = 0; step < 4; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  EXPECT_GT(passes.controller().head(0, 0).quality, 0.95f);
  EXPECT_LT(passes.controller().head(0, 0).needed, 0.1f);
  EXPECT_EQ(passes.controller().sparse_share(), 0);
  EXPECT_TRUE(passes.lists[0].dense(0, 0) && passes.lists[0].dense(0, 1));
}

TEST(Controller, StaysDenseWhereThePredictorIsBlind) {
  SparsityConfig config = Passes::dynamic();
  config.rank = 1;  // of 16 directions that all matter
  config.break_even = 1;
  Passes passes(config);
  for (int step = 0; step < 4; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  EXPECT_LT(passes.controller().head(0, 0).needed, 0.1f);
  EXPECT_LT(passes.controller().head(0, 0).quality, 0.8f);
  EXPECT_EQ(passes.controller().sparse_share(), 0);
}

TEST(Controller, AHeadThatNoLongerPaysTurnsDenseAndMayComeBack) {
  Passes passes(Passes::dynamic(), kCheap);
  std::int64_t step = 0;
  const auto until = [&](bool wanted, const auto& content) {
    for (int i = 0; i < 10 && passes.sparse(0) != wanted; ++i, ++step) {
      passes.train(step, content(passes, static_cast<std::uint64_t>(step), 1));
    }
    return passes.sparse(0) == wanted;
  };
  EXPECT_TRUE(until(true, lookups));
  EXPECT_TRUE(until(false, [](const Passes& p, std::uint64_t seed, std::int64_t) { return p.layer(seed); }));
  EXPECT_TRUE(passes.lists[0].dense(0, 0)) << "in the very pass that decided";
  EXPECT_TRUE(until(true, lookups));
}

TEST(Controller, LooksOnlyAtProfileStepsOfTraining) {
  SparsityConfig config = Passes::dynamic();
  config.profile_every = 50;  // 10 in the first 100 steps
  Passes passes(config, kCheap);
  const Controller& controller = passes.controller();
  for (const std::int64_t step : {0, 10, 90, 100, 150}) EXPECT_TRUE(controller.profiles_at(step)) << step;
  for (const std::int64_t step : {1, 9, 99, 110, 149}) EXPECT_FALSE(controller.profiles_at(step)) << step;
  const Layer x = lookups(passes, 1);
  passes.train(1, x);
  passes.sample(x);
  EXPECT_EQ(controller.head(0, 0).profiles, 0);
  passes.train(10, x);
  passes.train(11, x);
  passes.begin({.kind = Pass::Kind::kValidation, .step = 20});
  passes.attend(x);
  EXPECT_EQ(controller.head(0, 0).profiles, 1);
}

TEST(Controller, OfAccumulatedPassesTheFirstIsLookedAt) {
  for (const char* mode : {"dynamic", "static"}) {
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    Passes once(config, kCheap), four(config, kCheap);
    for (int step = 0; step < 3; ++step) {
      once.train(step, lookups(once, static_cast<std::uint64_t>(step)));
      for (int pass = 0; pass < 4; ++pass) {
        four.begin(testing::training(step, pass));
        four.attend(lookups(four, static_cast<std::uint64_t>(pass == 0 ? step : 100 + pass)));
      }
    }
    const std::string one = ::testing::TempDir() + "reel_once", many = ::testing::TempDir() + "reel_four";
    once.controller().save(one);
    four.controller().save(many);
    EXPECT_EQ(read_file(one), read_file(many)) << mode;
    std::remove(one.c_str());
    std::remove(many.c_str());
  }
}

TEST(Controller, NoHeadTurnsSparseBeforeTheStart) {
  for (const char* mode : {"dynamic", "told", "random", "window", "own", "static"}) {
    SparsityConfig config = Passes::dynamic();
    if (std::string(mode) == "told") {
      config.layer_keys = {0.3, 0.3};
    } else {
      config.mode = mode;
    }
    config.start = 3;  // two looks suffice without it
    Passes passes(config, kCheap);
    for (int step = 0; step < 5; ++step) {
      passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
      EXPECT_EQ(passes.lists[0].dense(0, 0), step < 3) << mode << ", step " << step;
      EXPECT_EQ(passes.kept_share() == 1, step < 3) << mode << ", step " << step;
    }
  }
}

TEST(Controller, DenseLayersAreNeverLookedAt) {
  SparsityConfig config = Passes::dynamic();
  config.dense_layers = {0};
  Passes passes(config, kCheap);
  for (int step = 0; step < 3; ++step) {
    passes.begin(testing::training(step));
    for (const int layer : {0, 1}) passes.attend(lookups(passes, static_cast<std::uint64_t>(2 * step + layer)), layer);
  }
  EXPECT_TRUE(passes.lists[0].dense(0, 0) && passes.lists[0].dense(0, 1));
  EXPECT_EQ(passes.controller().head(0, 0).profiles, 0);
  EXPECT_FALSE(passes.lists[1].dense(0, 0) || passes.lists[1].dense(0, 1));
  EXPECT_NEAR(passes.kept_share(), (1 + passes.lists[1].density()) / 2, 1e-12);
}

TEST(Controller, AFixedShareIsFilledExactlyAndCountsTheOwnTile) {
  for (const char* mode : {"dynamic", "told", "random", "window", "static"}) {
    SCOPED_TRACE(mode);
    SparsityConfig config = Passes::dynamic();
    if (std::string(mode) == "told") {
      config.layer_keys = {0.25, 1};
    } else {
      config.mode = mode;
      config.keys = 0.25;
    }
    Passes passes(config, kCheap);
    for (int step = 0; step < 2; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
    const KeyLists& lists = passes.lists[0];
    for (std::int64_t h = 0; h < 2; ++h) {
      ASSERT_FALSE(lists.dense(0, h));
      for (std::int64_t g = 0; g < 8; ++g) {
        EXPECT_EQ(lists.tokens(0, h, g), 128);
        for (std::int64_t own = 64 * g; own < 64 * (g + 1); ++own) EXPECT_TRUE(tokens_of(lists, 0, h, g).contains(own));
      }
    }
    if (std::string(mode) == "told") {  // also heads for which it does not pay
      for (int step = 2; step < 6; ++step) {
        passes.begin(testing::training(step));
        for (const int layer : {0, 1}) passes.attend(passes.layer(static_cast<std::uint64_t>(step)), layer);
      }
      EXPECT_FALSE(passes.lists[0].dense(0, 0) || passes.lists[0].dense(0, 1));
      EXPECT_TRUE(passes.lists[1].dense(0, 0) && passes.lists[1].dense(0, 1)) << "a share of 1";
    }
  }
}

TEST(Controller, ListsForAMassHaveTheProfiledNumberOfKeys) {
  Passes passes(Passes::dynamic(), kCheap);
  for (int step = 0; step < 4; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  for (std::int64_t h = 0; h < 2; ++h) {
    const double needed = static_cast<double>(passes.controller().head(0, h).needed_predicted);
    EXPECT_GT(needed, 0.125) << "the own tile, and what is looked up";
    EXPECT_LT(needed, 0.25);
    for (std::int64_t g = 0; g < 8; ++g) {
      EXPECT_EQ(passes.lists[0].tokens(0, h, g), std::ceil(512 * needed - 1e-3)) << g;
    }
  }
}

TEST(Controller, KeptFramesAreInEveryList) {
  for (const char* mode : {"dynamic", "random", "window", "own", "static"}) {
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    config.keep = {5, 2};
    config.keys = 0.4;
    Passes passes(config, {.break_even = {1, 1}});
    for (int step = 0; step < 2; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
    for (std::int64_t h = 0; h < 2; ++h) {
      ASSERT_FALSE(passes.lists[0].dense(0, h)) << mode;
      for (std::int64_t g = 0; g < 8; ++g) {
        const auto tokens = tokens_of(passes.lists[0], 0, h, g);
        EXPECT_EQ(tokens.size(), std::string(mode) == "own" ? 176u : 204u) << mode << ": 64 + 128 - 16, 0.4 * 512";
        for (std::int64_t i = 0; i < 512; ++i) {
          const std::int64_t frame = passes.order().position(i)[0];
          if (frame == 5 || frame == 2 || i / 64 == g) {
            ASSERT_TRUE(tokens.contains(i)) << mode << ", group " << g << ", token " << i;
          }
        }
      }
    }
  }
}

TEST(Controller, ListsThatDoNotFitInMemoryAreNotMade) {
  SparsityConfig config = Passes::dynamic();
  config.keys = 0.25;  // 128 keys for each of 8 groups and 2 items: 8 KB a head
  Controller::Options options = kCheap;
  for (const double limit : {8000.0, 16384.0, 0.0}) {
    options.lists_bytes = limit;
    Passes passes(config, options);
    for (int step = 0; step < 2; ++step) {
      passes.begin(testing::training(step));
      for (const int layer : {0, 1}) passes.attend(lookups(passes, static_cast<std::uint64_t>(step), 2), layer);
    }
    const double fit = limit == 0 ? 4 : std::floor(limit / 8192);
    EXPECT_EQ(passes.controller().sparse_share(), fit / 4) << limit;
  }
}

TEST(Controller, ItemsOfABatchHaveListsOfTheirOwn) {
  Passes passes(Passes::dynamic(), kCheap);
  const Layer x = lookups(passes, 1, 3);
  for (int step = 0; step < 2; ++step) passes.train(step, x);
  const KeyLists& lists = passes.lists[0];
  ASSERT_EQ(lists.batch, 3);
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t g = 0; g < 8; ++g) {
        EXPECT_TRUE(tokens_of(lists, b, h, g).contains(x.wanted(b, h, g))) << b << h << g;
      }
    }
  }
}

// Tiles of 64 keys where they cost less in sum; ragged groups, whose tiles of keys are not their tiles of queries.
TEST(Controller, ChoosesWholeTilesWhereTheyAreCheaper) {
  for (const float tile_cost : {0.01f, 20.0f}) {
    Passes passes(Passes::dynamic(), {.break_even = {1, tile_cost}});
    passes.order({7, 9, 10}, {3});
    const Layer x = lookups(passes, 1);
    for (int step = 0; step < 3; ++step) passes.train(step, x);
    const KeyLists& lists = passes.lists[0];
    ASSERT_FALSE(lists.dense(0, 0)) << tile_cost;
    EXPECT_EQ(lists.granularity, tile_cost < 1 ? 64 : 1);
    for (std::int64_t g = 0; g < passes.order().groups(); ++g) {
      const auto tokens = tokens_of(lists, 0, 0, g);
      EXPECT_TRUE(tokens.contains(x.wanted(0, 0, g)));
      EXPECT_TRUE(tokens.contains(passes.order().group_starts[static_cast<std::size_t>(g)]));
      EXPECT_TRUE(tokens.contains(passes.order().group_starts[static_cast<std::size_t>(g) + 1] - 1));
    }
  }
}

TEST(Controller, SameListsForAnyNumberOfThreads) {
  for (const char* mode : {"dynamic", "random", "static"}) {
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    Passes one(config, kCheap, {2, 2, 16}, 1), three(config, kCheap, {2, 2, 16}, 3);
    for (int step = 0; step < 4; ++step) {
      const Layer x = one_of_each(one, static_cast<std::uint64_t>(step));
      expect_same_bits(one.train(step, x), three.train(step, x));
      EXPECT_TRUE(testing::same(one.lists[0], three.lists[0])) << mode << ", step " << step;
    }
    EXPECT_LT(one.lists[0].density(), 1) << mode;
  }
}

// --- sampling -----------------------------------------------------------------------------------------------------

struct Sampling : ::testing::Test {
  Sampling() : passes(Passes::dynamic(), kCheap), a(lookups(passes, 7)), b(a), other(a) {
    other.shift = 200;
    for (const std::int64_t h : {0, 1}) other.look_up(passes.order(), h);
    for (int step = 0; step < 3; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
    std::uint64_t at = 0;
    for (float& value : b.q) value += 1e-3f * Random(5).normal(at++);
  }
  Passes passes;
  Layer a, b, other;  // b is a little later than a
};

TEST_F(Sampling, KeepsListsFromStepToStepAsLongAsTheyCover) {
  passes.sample(a);
  const KeyLists chosen = passes.lists[0];
  EXPECT_EQ(passes.controller().reused(), 0);
  passes.sample(b);
  EXPECT_EQ(passes.controller().reused(), 1);
  EXPECT_TRUE(testing::same(passes.lists[0], chosen));
  passes.sample(other, 1);
  EXPECT_EQ(passes.controller().reused(), 1) << "another stream has none yet";
  passes.sample(b);
  EXPECT_EQ(passes.controller().reused(), 2) << "streams do not take each other's";
  EXPECT_TRUE(testing::same(passes.lists[0], chosen));
  passes.sample(other);
  EXPECT_EQ(passes.controller().reused(), 2) << "they cover nothing of this one";
  EXPECT_TRUE(tokens_of(passes.lists[0], 0, 0, 3).contains(other.wanted(0, 0, 3)));
}

// Groups of ranks sample some of the clips each.
TEST_F(Sampling, AClipHasTheSameListsWhateverClipsAreBesideIt) {
  const auto beside = [](Layer x, const Layer& y) {
    x.batch = 2;
    for (const auto& [to, from] : {std::pair{&x.q, &y.q}, {&x.k, &y.k}, {&x.v, &y.v}}) {
      to->insert(to->end(), from->begin(), from->end());
    }
    return x;
  };
  // Later the first clip is covered still, the second one is not.
  const std::vector<std::pair<Layer, Layer>> steps = {{a, a}, {b, other}, {a, other}};
  std::vector<KeyLists> first, second;
  for (const auto& [x, y] : steps) passes.sample(x), first.push_back(passes.lists[0]);
  passes.held = {};
  for (const auto& [x, y] : steps) passes.sample(y), second.push_back(passes.lists[0]);
  EXPECT_FALSE(testing::same(second[0], second[1]));
  passes.held = {};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    passes.sample(beside(steps[i].first, steps[i].second));
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t g = 0; g < 8; ++g) {
        EXPECT_EQ(tokens_of(passes.lists[0], 0, h, g), tokens_of(first[i], 0, h, g)) << i;
        EXPECT_EQ(tokens_of(passes.lists[0], 1, h, g), tokens_of(second[i], 0, h, g)) << i;
      }
    }
  }
}

// Also where the first step of the next clips happens to be covered by the lists of the last.
TEST_F(Sampling, ListsDoNotOutliveTheClipsThatAreSampledTogether) {
  passes.sample(a);
  passes.held = {};
  passes.sample(b);
  EXPECT_EQ(passes.controller().reused(), 0);
  passes.order({4, 8, 16});  // as many tokens in other places
  passes.sample(b);
  EXPECT_EQ(passes.controller().reused(), 0);
  passes.sample(Layer(2, 512, {2, 2, 16}, 1));
  EXPECT_EQ(passes.controller().reused(), 0) << "another number of clips";
}

// --- numbers that are not finite ------------------------------------------------------------------------------------

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

struct Bad {
  const char* name;
  float value;
  bool in_keys, everywhere;
};
const std::vector<Bad> kBad = {{"one NaN in q", kNan, false, false},
                               {"one NaN in k", kNan, true, false},
                               {"all NaN", kNan, true, true},
                               {"one infinite q", kInfinity, false, false},
                               {"one infinite k", -kInfinity, true, false},
                               {"exploded", 1e30f, true, true}};

Layer broken(Layer x, const Bad& bad) {
  std::vector<float>& values = bad.in_keys ? x.k : x.q;
  if (bad.everywhere) {
    for (float& value : values) value *= bad.value;
    for (float& value : x.q) value *= bad.value;
  } else {
    values[5 * 32 + 3] = bad.value;  // token 5, head 0
  }
  return x;
}

// The heads of a controller, as numbers.
std::vector<float> state(const Controller& c) {
  std::vector<float> all;
  for (int layer = 0; layer < 2; ++layer) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (const HeadField& field : kHeadFields) all.push_back(c.head(layer, h).*field.value);
    }
  }
  return all;
}

TEST(ControllerFallback, APassThatIsNotFiniteIsDenseAndLeavesNoTrace) {
  for (const bool profiled : {true, false}) {
    SparsityConfig config = Passes::dynamic();
    if (!profiled) config.profile_every = 20;  // 4, at first
    config.samples = 64;
    const auto begin = [](Passes& passes) {
      passes.order({4, 8, 8});
      for (const int step : {0, 4, 8}) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
      ASSERT_TRUE(passes.sparse(0) && passes.sparse(1));
    };
    Passes spared(config, kCheap);
    begin(spared);
    const std::vector<float> before = state(spared.controller());
    spared.train(16, lookups(spared, 16));
    for (const Bad& bad : kBad) {
      SCOPED_TRACE(fmt::format("{}, {}", bad.name, profiled ? "looked at" : "not looked at"));
      Passes passes(config, kCheap);
      begin(passes);
      const std::int64_t step = profiled ? 12 : 9;
      std::vector<std::pair<std::int64_t, int>> told;
      passes.controller().on_fallback = [&](std::int64_t at, int layer) { told.emplace_back(at, layer); };
      passes.train(step, broken(lookups(passes, 3), bad));
      EXPECT_EQ(told, (std::vector<std::pair<std::int64_t, int>>{{step, 0}}));
      EXPECT_TRUE(passes.lists[0].dense(0, 0) && passes.lists[0].dense(0, 1));
      EXPECT_EQ(passes.controller().fallbacks(), 1);
      expect_same_bits(state(passes.controller()), before);
      // Afterwards all is as if it had not been.
      passes.train(16, lookups(passes, 16));
      EXPECT_FALSE(passes.lists[0].dense(0, 0));
      EXPECT_TRUE(testing::same(passes.lists[0], spared.lists[0]));
      EXPECT_EQ(passes.controller().fallbacks(), 1);
    }
  }
}

TEST(ControllerFallback, ADensePassOverNumbersThatAreNotFiniteIsThatOfPlainAttention) {
  SparsityConfig config = Passes::dynamic();
  config.samples = 64;  // so that the query is among those that are scored
  Passes passes(config, kCheap);
  for (int step = 0; step < 3; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  const Layer x = broken(lookups(passes, 3), kBad[0]);
  config.dense_layers = {0};
  Passes dense(config);
  const std::vector<float> got = passes.train(3, x), want = dense.train(3, x);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
  }
}

TEST(ControllerFallback, AModelThatBeginsBrokenIsDenseUntilItIsNot) {
  for (const char* mode : {"dynamic", "static"}) {
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    const auto go_on = [](Passes& passes) {
      passes.order({4, 8, 8});
      for (int step = 1; step < 3; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
    };
    Passes spared(config, kCheap);
    go_on(spared);
    for (const Bad& bad : kBad) {
      SCOPED_TRACE(fmt::format("{}, {}", bad.name, mode));
      Passes passes(config, kCheap);
      passes.order({4, 8, 8});
      passes.train(0, broken(lookups(passes, 9), bad));
      EXPECT_TRUE(passes.lists[0].dense(0, 0));
      go_on(passes);
      EXPECT_FALSE(passes.lists[0].dense(0, 0));
      EXPECT_TRUE(testing::same(passes.lists[0], spared.lists[0]));
    }
  }
}

// Scores that are large and finite are scores: the key that has them is found.
TEST(ControllerFallback, OneKeyThatExplodedIsInEveryListThatWantsIt) {
  SparsityConfig config = Passes::dynamic();
  config.profile_every = 20;
  Passes passes(config, kCheap);
  for (const int step : {0, 4}) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  Layer x = lookups(passes, 3);
  for (std::int64_t d = 0; d < 16; ++d) x.k[x.at(0, 300, 0) + static_cast<std::size_t>(d)] = 1e30f * x.q[x.at(0, 0, 0)];
  for (std::int64_t d = 0; d < 16; ++d) x.q[x.at(0, 0, 0) + static_cast<std::size_t>(d)] = x.q[x.at(0, 0, 0)];
  for (const float value : passes.train(5, x)) ASSERT_TRUE(std::isfinite(value));
  if (!passes.lists[0].dense(0, 0)) {
    EXPECT_TRUE(tokens_of(passes.lists[0], 0, 0, 0).contains(300));
  }
}

TEST(ControllerFallback, SamplingGoesOnAfterAStepThatIsNotFinite) {
  Passes passes(Passes::dynamic(), kCheap);
  for (int step = 0; step < 3; ++step) passes.train(step, lookups(passes, static_cast<std::uint64_t>(step)));
  const Layer x = lookups(passes, 3);
  passes.sample(x);
  const KeyLists before = passes.lists[0];
  passes.sample(broken(x, kBad[2]));
  EXPECT_TRUE(passes.lists[0].dense(0, 0));
  passes.sample(x);
  EXPECT_TRUE(testing::same(passes.lists[0], before));
  passes.sample(x);
  EXPECT_EQ(passes.controller().reused(), 1);
}

}  // namespace
}  // namespace reel::sparsity
