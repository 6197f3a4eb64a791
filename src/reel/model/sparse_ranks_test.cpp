// Keys chosen by many ranks, from the q and k that one rank has: the same lists and the same state, to the bit.
#include "reel/model/sparse_ranks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "reel/files/file.h"
#include "reel/parallel/testing.h"
#include "reel/predict/hidden_testing.h"
#include "reel/sparsity/testing.h"

namespace reel::model {
namespace {

using layout::Cut;
using layout::Degrees;
using lists::testing::same;
using parallel::Team;
using parallel::testing::world;
using sparsity::Controller;
using sparsity::testing::training;

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
class Chooser {
 public:
  Chooser(const sparsity::SparsityConfig& config, const predict::ModelHeads& shape, Team* team)
      : controller(config, shape, {.break_even = {0.6f, 1}, .lists_bytes = 1e6, .seed = 3}),
        shape_(shape),
        team_(team) {
    parallel::testing::poll_from(threads_);
    controller.on_lists = [this](int, const lists::KeyLists& all) { lists.push_back(all); };
  }

  // The next steps are of other clips.
  void begin(const std::array<std::int64_t, 3>& grid) { grid_ = grid, held_ = {}; }

  void attend(const Layer& pass, sparsity::Pass of) {
    const bool training = of.training();
    tape::Tape tape(threads_, pool_, {.gradients = false});
    const bool many = team_ != nullptr;
    const std::int64_t groups = many && training ? team_->data().size() : 1;
    const Cut clips = layout::even_cut(pass.clips, static_cast<int>(groups));
    const Cut tokens = layout::even_cut(pass.tokens, many ? team_->sequence().size() : 1);
    const int group = many && training ? team_->data().rank() : 0, rank = many ? team_->sequence().rank() : 0;
    const tape::Shape shape = {clips.size(group), tokens.size(rank), shape_.heads, shape_.head_dim};
    const auto own = [&](const std::vector<float>& x) { return part_of(x, pass.tokens, clips, group, tokens, rank); };
    const tape::Tensor q = tape.copy_in(shape, own(pass.q)), k = tape.copy_in(shape, own(pass.k));
    predict::Origin origin = pass.origin;
    if (!pass.hidden.empty()) {
      origin.hidden = tape.copy_in({shape[0], shape[1], shape[2] * shape[3]}, own(pass.hidden));
    }
    if (training) of.clips = clips;
    sparsity::Chooser chooser(controller, of, training ? nullptr : &held_);
    chooser.order(grid_, {});
    if (!many) {
      chooser.lists(tape, 0, q, k, origin);
      return;
    }
    SparseRanks ranks(tape, *team_, q, tokens, of);
    chooser.lists(tape, 0, q, k, origin, &ranks);
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
  predict::ModelHeads shape_;
  Team* team_;
  std::array<std::int64_t, 3> grid_ = {};
  sparsity::HeldLists held_;
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
  sparsity::SparsityConfig config;
  predict::ModelHeads shape;
  std::array<std::int64_t, 3> grid;
};

std::vector<Case> cases() {
  sparsity::SparsityConfig mass = sparsity::testing::Passes::dynamic();
  mass.group = {2, 2, 2};
  mass.profile_every = 10;  // every second step
  mass.rank = 0;
  sparsity::SparsityConfig keys = mass, told = mass, few = mass, fixed = mass, random = mass;
  keys.keys = 0.3, keys.samples = 3, keys.rank = 5;
  told.layer_keys = {0.4}, told.samples = 1, told.group = {3, 3, 3};
  few.layer_keys = {0.5}, few.keep = {0};
  fixed.mode = "static", random.mode = "random";
  const std::array<std::int64_t, 3> odd = {3, 5, 7};
  return {{"mass", mass, {1, 3, 16}, {4, 8, 8}}, {"keys", keys, {1, 3, 16}, odd},
          {"told", told, {1, 5, 8}, odd},        {"few tokens", few, {1, 2, 8}, {1, 1, 3}},
          {"static", fixed, {1, 2, 8}, odd},     {"random", random, {1, 2, 8}, odd}};
}

// Things to find for some heads: clips differ, and from step to step.
std::vector<Layer> passes_of(const Case& c, std::int64_t clips) {
  const lists::TokenOrder order = lists::tile_order(c.grid, c.config.tile());
  std::vector<Layer> passes;
  for (std::uint64_t step = 0; step < 5; ++step) {
    sparsity::testing::Layer layer(clips, order.tokens(), c.shape, 40 + step);
    for (std::int64_t h = 0; h + 1 < c.shape.heads; ++h) layer.look_up(order, h);
    passes.push_back({clips, order.tokens(), layer.q, layer.k, {}});
  }
  return passes;
}

void expect_same(const Chooser& many, const Chooser& one) {
  ASSERT_EQ(many.lists.size(), one.lists.size());
  for (std::size_t i = 0; i < one.lists.size(); ++i) EXPECT_TRUE(same(many.lists[i], one.lists[i])) << "pass " << i;
  EXPECT_EQ(many.state(), one.state());
  EXPECT_EQ(many.controller.reused(), one.controller.reused());
}

// Training, then sampling: its second step is much like the first and may keep the lists, the third is another clip.
void run(Chooser& chooser, const Case& c, const std::vector<Layer>& passes) {
  chooser.begin(c.grid);
  for (std::size_t step = 0; step < passes.size(); ++step) {
    chooser.attend(passes[step], training(static_cast<std::int64_t>(step)));
  }
  for (const std::size_t step : {0, 0, 3}) {
    chooser.attend(passes[step], {.kind = sparsity::Pass::Kind::kSampling, .step = 1000});
  }
}

TEST(SparseRanks, ListsAndDecisionsAreThoseOfOneRankForEveryPlan) {
  for (const Case& c : cases()) {
    const std::vector<Layer> passes = passes_of(c, world().size() + 1);
    Chooser one(c.config, c.shape, nullptr);
    run(one, c, passes);
    EXPECT_FALSE(one.lists.back().dense(0, 0)) << c.name << ": nothing was chosen";
    for (const Degrees& plan : all_plans()) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, plan.text()));
      Team team(world(), plan);
      Chooser many(c.config, c.shape, &team);
      run(many, c, passes);
      expect_same(many, one);
    }
  }
}

TEST(SparseRanks, ThePredictorHiddenLearnsTheSame) {
  predict::testing::WanLayer layer(3, 8, 1);
  std::vector<Layer> passes;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto clip = layer.clip(i, world().size() + 1);
    Layer pass{world().size() + 1, layer.kTokens, {}, {}, {}, clip->origin};
    pass.q = tape::testing::copy_of(clip->q.span());
    pass.k = tape::testing::copy_of(clip->k.span());
    pass.hidden = tape::testing::copy_of(clip->origin.hidden.span());
    passes.push_back(std::move(pass));
  }
  sparsity::SparsityConfig config = sparsity::testing::Passes::dynamic();
  config.predictor = "hidden";
  config.profile_every = 10;
  config.rank = 4;
  config.layer_keys = {0.3};
  const auto learn = [&](Chooser& chooser) {
    chooser.begin({8, 8, 8});
    for (std::size_t step = 0; step < passes.size(); ++step) {
      chooser.attend(passes[step], training(static_cast<std::int64_t>(step)));
    }
  };
  Chooser one(config, layer.shape, nullptr);
  learn(one);
  EXPECT_FALSE(one.lists.back().dense(0, 0));
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chooser many(config, layer.shape, &team);
    learn(many);
    expect_same(many, one);
  }
}

// A clip that is not finite, on one rank of one group: all of them go dense for that pass, and learn nothing.
TEST(SparseRanks, WhatIsNotFiniteOnOneRankIsSoForAll) {
  const Case c = cases()[2];
  std::vector<Layer> passes = passes_of(c, world().size());
  for (const std::size_t spoilt : {2, 3}) passes[spoilt].k.back() = NAN;  // a profiled pass, and another
  Chooser one(c.config, c.shape, nullptr);
  run(one, c, passes);
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chooser many(c.config, c.shape, &team);
    run(many, c, passes);
    EXPECT_EQ(many.controller.fallbacks(), one.controller.fallbacks());
    expect_same(many, one);
  }
  EXPECT_GE(one.controller.fallbacks(), 2);
}

// What a pass that is not looked at sends: its low-rank queries and keys to the ranks of its group, and two numbers to
// all. Whole q and k would be head_dim / rank times as much, and everybody's.
TEST(SparseRanks, OnlyLowRankNumbersAreSent) {
  Case c = cases()[2];
  c.config.rank = 2;
  for (const Degrees& plan : all_plans()) {
    SCOPED_TRACE(plan.text());
    Team team(world(), plan);
    Chooser many(c.config, c.shape, &team);
    many.begin(c.grid);
    const lists::TokenOrder order = lists::tile_order(c.grid, c.config.tile());
    many.controller.on_lists = nullptr;
    const std::vector<Layer> passes = passes_of(c, team.data().size());
    many.attend(passes[0], training(0));
    world().shared().traffic.clear();
    many.attend(passes[1], training(1));
    const std::int64_t others = team.sequence().size() - 1;
    double sent = static_cast<double>(world().shared().traffic.bytes_sent());
    team.sequence().all_reduce({&sent, 1});
    const std::int64_t rows = order.tokens() + order.groups();  // one query of each group is scored
    const std::int64_t low = others * rows * c.shape.heads * c.config.rank * std::int64_t{sizeof(float)};
    const std::int64_t flags = team.sequence().size() * (world().size() - 1) * 2 * std::int64_t{sizeof(double)};
    EXPECT_EQ(sent, static_cast<double>(low + flags));
  }
}

}  // namespace
}  // namespace reel::model
