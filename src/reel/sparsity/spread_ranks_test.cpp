// Keys chosen by many ranks, from the q and k that one rank has: the same lists and the same state, to the bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "reel/files/file.h"
#include "reel/parallel/testing.h"
#include "reel/predict/hidden_testing.h"
#include "reel/sparsity/spread.h"
#include "reel/sparsity/testing.h"

namespace reel::sparsity {
namespace {

using layout::Cut;
using layout::Degrees;
using lists::testing::same;
using parallel::Team;
using parallel::testing::world;
using testing::training;

// q and k (and what they are made of) of one pass of one layer, all clips and tokens: [clips][tokens][heads][head_dim].
struct Layer {
  std::int64_t clips = 1, tokens = 0;
  std::vector<float> q, k, hidden;
  predict::Origin origin = {};
};

std::vector<float> part_of(const std::vector<float>& all, std::int64_t tokens, const Cut& clip_cut, int group,
                           const Cut& token_cut, int rank) {
  std::vector<float> part;
  const std::int64_t width = static_cast<std::int64_t>(all.size()) / (clip_cut.extent() * tokens);
  for (std::int64_t b = clip_cut.begin(group); b < clip_cut.end(group); ++b) {
    const auto first = all.begin() + (b * tokens + token_cut.begin(rank)) * width;
    part.insert(part.end(), first, first + token_cut.size(rank) * width);
  }
  return part;
}

// One rank, or one of a team; what the controller chooses, of all clips.
class Chosen {
 public:
  Chosen(const SparsityConfig& config, const predict::ModelHeads& shape, Team* team)
      : controller(config, shape, {.break_even = {0.6f, 1}, .lists_bytes = 1e6, .seed = 3}),
        shape_(shape),
        team_(team) {
    parallel::testing::poll_from(threads_);
    controller.on_lists = [this](int, const lists::KeyLists& all) { lists.push_back(all); };
  }

  void alone() { team_ = nullptr; }  // from now on this rank runs passes of its own
  // The next steps are of other clips.
  void begin(const std::array<std::int64_t, 3>& grid) { grid_ = grid, held_ = {}; }

  void attend(const Layer& pass, const Pass& of) {
    const bool training = of.training();
    tape::Tape tape(threads_, pool_, {.gradients = false});
    const bool many = team_ != nullptr;
    const std::int64_t groups = many && training ? team_->data().size() : 1;
    const Cut clips = layout::even_cut(pass.clips, static_cast<int>(groups));
    Chooser chooser(controller, training ? with_clips(of, clips) : of,
                    of.kind == Pass::Kind::kSampling ? &held_ : nullptr);
    const lists::TokenOrder& order = chooser.order(grid_, {});
    const Cut tokens = layout::resting_cut(order.group_starts, many ? team_->sequence().size() : 1);
    const int group = many && training ? team_->data().rank() : 0, rank = many ? team_->sequence().rank() : 0;
    const tape::Shape shape = {clips.size(group), tokens.size(rank), shape_.heads, shape_.head_dim};
    const auto own = [&](const std::vector<float>& x) { return part_of(x, pass.tokens, clips, group, tokens, rank); };
    const tape::Tensor q = tape.copy_in(shape, own(pass.q)), k = tape.copy_in(shape, own(pass.k));
    predict::Origin origin = pass.origin;
    std::vector<float> hidden;
    if (!pass.hidden.empty()) {
      hidden = own(pass.hidden);
      origin.hidden = hidden.data();
    }
    const Spread spread(tape, team_, q.shape(), tokens, chooser.pass);
    const auto own_lists = chooser.lists(tape, 0, q, k, origin, spread);
    if (own_lists == nullptr) return;
    const parallel::Had share = spread.share(order);  // keys are chosen where they are used, and nowhere else
    EXPECT_EQ(own_lists->heads, share.last_head - share.first_head);
    EXPECT_EQ(own_lists->groups(), share.last_group - share.first_group);
  }

  std::string state() const {
    const std::string path = ::testing::TempDir() + fmt::format("reel_state_{}", ::getpid());
    controller.save(path);
    const std::string state = read_file(path);
    std::remove(path.c_str());
    return state;
  }

  Controller controller;
  std::vector<lists::KeyLists> lists;  // of every pass

 private:
  static Pass with_clips(Pass pass, const Cut& clips) {
    pass.clips = clips;
    return pass;
  }
  predict::ModelHeads shape_;
  Team* team_;
  std::array<std::int64_t, 3> grid_ = {};
  HeldLists held_;
  Threads threads_{1};
  tape::Pool pool_;
};

// All ways to cut the ranks: every factorisation of every degree, the rest is data parallel.
std::vector<Degrees> all_plans() {
  std::vector<Degrees> plans;
  for (int degree = 1; degree <= world().size(); ++degree) {
    if (world().size() % degree != 0) continue;
    for (const Degrees& plan : parallel::testing::factorisations(degree)) plans.push_back(plan);
  }
  return plans;
}

struct Case {
  std::string name;
  SparsityConfig config;
  predict::ModelHeads shape;
  std::array<std::int64_t, 3> grid;
};

std::vector<Case> cases() {
  SparsityConfig mass = testing::Passes::dynamic();
  mass.group = {2, 2, 2};
  mass.profile_every = 10;  // every second step
  mass.rank = 0;
  SparsityConfig keys = mass, told = mass, few = mass, fixed = mass, random = mass;
  keys.keys = 0.3, keys.samples = 3, keys.rank = 5;
  told.layer_keys = {0.4}, told.samples = 1, told.group = {3, 3, 3};
  few.layer_keys = {0.5}, few.keep = {0};
  fixed.mode = "static", random.mode = "random";
  SparsityConfig window = random, own = random;
  window.mode = "window", own.mode = "own";
  const std::array<std::int64_t, 3> odd = {3, 5, 7};
  return {{"mass", mass, {1, 3, 16}, {4, 8, 8}}, {"keys", keys, {1, 3, 16}, odd},
          {"told", told, {1, 5, 8}, odd},        {"few tokens", few, {1, 2, 8}, {1, 1, 3}},
          {"static", fixed, {1, 2, 8}, odd},     {"random", random, {1, 2, 8}, odd},
          {"window", window, {1, 3, 8}, odd},    {"own", own, {1, 2, 8}, odd}};
}

// Things to find for some heads: clips differ, and from step to step.
std::vector<Layer> passes_of(const Case& c, std::int64_t clips) {
  const lists::TokenOrder order = lists::tile_order(c.grid, c.config.tile());
  std::vector<Layer> passes;
  for (std::uint64_t step = 0; step < 5; ++step) {
    testing::Layer layer(clips, order.tokens(), c.shape, 40 + step);
    for (std::int64_t h = 0; h + 1 < c.shape.heads; ++h) layer.look_up(order, h);
    passes.push_back({clips, order.tokens(), layer.q, layer.k, {}});
  }
  return passes;
}

void expect_same(const Chosen& many, const Chosen& one) {
  ASSERT_EQ(many.lists.size(), one.lists.size());
  for (std::size_t i = 0; i < one.lists.size(); ++i) EXPECT_TRUE(same(many.lists[i], one.lists[i])) << "pass " << i;
  EXPECT_EQ(many.state(), one.state());
  EXPECT_EQ(many.controller.reused(), one.controller.reused());
}

// Training, then sampling: its second step is much like the first and may keep the lists, the third is another clip.
void run(Chosen& chooser, const Case& c, const std::vector<Layer>& passes) {
  chooser.begin(c.grid);
  for (std::size_t step = 0; step < passes.size(); ++step) {
    chooser.attend(passes[step], training(static_cast<std::int64_t>(step)));
  }
  for (const std::size_t step : {0, 0, 3}) {
    chooser.attend(passes[step], {.kind = Pass::Kind::kSampling, .step = 1000});
  }
}

TEST(Spread, ListsAndDecisionsAreThoseOfOneRankForEveryPlan) {
  for (const Case& c : cases()) {
    const std::vector<Layer> passes = passes_of(c, world().size() + 1);
    Chosen one(c.config, c.shape, nullptr);
    run(one, c, passes);
    EXPECT_FALSE(one.lists.back().dense(0, 0)) << c.name << ": nothing was chosen";
    for (const Degrees& plan : all_plans()) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, plan.text()));
      Team team(world(), plan);
      Chosen many(c.config, c.shape, &team);
      run(many, c, passes);
      expect_same(many, one);
    }
  }
}

// As for the page of a run, between two steps of all ranks.
TEST(Spread, ARankThatRunsAPassAloneHasAllListsOfIt) {
  for (const Case& c : cases()) {
    const std::vector<Layer> passes = passes_of(c, 1);
    Chosen one(c.config, c.shape, nullptr);
    run(one, c, passes);
    one.attend(passes[0], {});
    for (const Degrees& plan : parallel::testing::factorisations(world().size())) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, plan.text()));
      Team team(world(), plan);
      Chosen many(c.config, c.shape, &team);
      run(many, c, passes);
      many.alone();
      many.attend(passes[0], {});
      expect_same(many, one);
    }
  }
}

TEST(Spread, ThePredictorHiddenLearnsTheSame) {
  predict::testing::WanLayer layer(3, 8, 1);
  std::vector<Layer> passes;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto clip = layer.clip(i, world().size() + 1);
    Layer pass{world().size() + 1, layer.kTokens, {}, {}, {}, clip->origin};
    pass.q = clip->q;
    pass.k = clip->k;
    pass.hidden = clip->hidden;
    passes.push_back(std::move(pass));
  }
  SparsityConfig config = testing::Passes::dynamic();
  config.predictor = "hidden";
  config.profile_every = 10;
  config.rank = 4;
  config.layer_keys = {0.3};
  const auto learn = [&](Chosen& chooser) {
    chooser.begin({8, 8, 8});
    for (std::size_t step = 0; step < passes.size(); ++step) {
      chooser.attend(passes[step], training(static_cast<std::int64_t>(step)));
    }
  };
  Chosen one(config, layer.shape, nullptr);
  learn(one);
  EXPECT_FALSE(one.lists.back().dense(0, 0));
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chosen many(config, layer.shape, &team);
    learn(many);
    expect_same(many, one);
  }
}

// A clip that is not finite, on one rank of one group: all of them go dense for that pass, and learn nothing.
TEST(Spread, WhatIsNotFiniteOnOneRankIsSoForAll) {
  const Case c = cases()[2];
  std::vector<Layer> passes = passes_of(c, world().size());
  for (const std::size_t spoilt : {2, 3}) passes[spoilt].k.back() = NAN;  // a profiled pass, and another
  Chosen one(c.config, c.shape, nullptr);
  run(one, c, passes);
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chosen many(c.config, c.shape, &team);
    run(many, c, passes);
    EXPECT_EQ(many.controller.fallbacks(), one.controller.fallbacks());
    expect_same(many, one);
  }
  EXPECT_GE(one.controller.fallbacks(), 2);
}

// What a pass that is not looked at sends: to each rank the low-rank queries and keys of the heads and groups that it
// computes, and three numbers to all. Whole q and k would be head_dim / rank times as much.
TEST(Spread, OnlyLowRankNumbersOfItsShareAreSentToARank) {
  Case c = cases()[2];
  c.config.rank = 2;
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chosen many(c.config, c.shape, &team);
    many.begin(c.grid);
    const lists::TokenOrder order = lists::tile_order(c.grid, c.config.tile());
    many.controller.on_lists = nullptr;
    const std::vector<Layer> passes = passes_of(c, team.data().size());
    many.attend(passes[0], training(0));
    world().shared().traffic.clear();
    many.attend(passes[1], training(1));
    double sent = static_cast<double>(world().shared().traffic.bytes_sent());
    team.sequence().all_reduce({&sent, 1});
    const int ranks = team.sequence().size();
    const Cut tokens = layout::resting_cut(order.group_starts, ranks);
    std::int64_t rows = 0;  // of all heads
    for (int to = 0; to < ranks; ++to) {
      const parallel::Share share = parallel::share_of(team, to, tokens, c.shape.heads);
      for (int from = 0; from < ranks; ++from) {
        if (from == to) continue;
        std::int64_t queries = 0;  // one of each group is scored
        for (std::int64_t g = 0; g < order.groups(); ++g) {
          const std::int64_t first = order.group_starts[static_cast<std::size_t>(g)];
          if (first >= share.first_query && first < share.last_query && first >= tokens.begin(from) &&
              first < tokens.end(from)) {
            ++queries;
          }
        }
        rows += (share.last_head - share.first_head) * (tokens.size(from) + queries);
      }
    }
    const std::int64_t low = rows * c.config.rank * std::int64_t{sizeof(float)};
    const std::int64_t numbers = ranks * (world().size() - 1) * 3 * std::int64_t{sizeof(double)};
    EXPECT_EQ(sent, static_cast<double>(low + numbers));
  }
}

}  // namespace
}  // namespace reel::sparsity
