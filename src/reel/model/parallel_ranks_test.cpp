// Every family on many ranks against one rank: outputs, loss and every gradient.
#include <gtest/gtest.h>

#include "reel/model/clips.h"
#include "reel/model/testing.h"
#include "reel/parallel/testing.h"

namespace reel::model {
namespace {

using layout::Degrees;
using parallel::Team;
using parallel::testing::world;

struct Pass {
  bool recompute = false;
  std::shared_ptr<const lists::OrderedLists> lists = nullptr;
};

testing::Result run_on(Team& team, Denoiser& model, const testing::Values& values, const Pass& pass,
                       std::span<const float> target) {
  Threads threads(1);
  parallel::testing::poll_from(threads);
  tape::Pool pool;
  testing::Result result;
  {
    Tape tape(threads, pool, {});
    Context context(tape);
    context.recompute = pass.recompute;
    context.lists = pass.lists;
    context.team = &team;
    model.parameters().clear_gradients();
    const Tensor sample = forward_clips(model, context, values.on(tape));
    result.shape = sample.shape();
    result.sample = tape::testing::copy_of(sample.span());
    const Tensor loss = tape::mean_squared_error(tape, sample, tape.copy_in(sample.shape(), target));
    result.loss = loss.item();
    tape.backward(loss);
  }
  EXPECT_EQ(pool.live_bytes(), 0u);
  model.parameters().zero_untouched_gradients();
  team.world().all_reduce(model.parameters().gradients());
  for (const Parameter& p : model.parameters().all()) {
    if (p.trained) result.gradients[file_name_of(model.config(), p.name)].assign(p.gradient, p.gradient + p.size());
  }
  return result;
}

void expect_parity(const testing::Result& many, const testing::Result& one) {
  parallel::testing::expect_parity(many.sample, one.sample);
  EXPECT_NEAR(many.loss, one.loss, 1e-5 * std::abs(one.loss));
  double largest = 0;
  for (const auto& [name, gradient] : one.gradients) largest = std::max(largest, testing::largest(gradient));
  for (const auto& [name, gradient] : one.gradients) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(many.gradients.contains(name));
    // A gradient that is mathematically zero (keys' biases) is rounding: of the largest of the model.
    const bool zero = testing::largest(gradient) < 1e-4 * largest;
    parallel::testing::expect_parity(many.gradients.at(name), gradient, zero ? largest : 0);
  }
}

std::vector<Degrees> plans_for(const std::string& family, int ranks) {
  std::vector<Degrees> plans = parallel::testing::factorisations(ranks);
  if (!testing::full_attention(family))
    plans.insert(plans.begin(), {Degrees{.dsp = ranks}, Degrees{.ulysses = ranks, .both = true}});
  return plans;
}

struct Size {
  std::array<std::int64_t, 4> clip;  // batch, frames, height, width
};

// Odd numbers of frames and places, batches, fewer frames or places than ranks.
TEST(ModelRanks, SampleAndEveryGradientAreThoseOfOneRank) {
  for (const std::string& family : testing::kFamilies) {
    for (const Size& size : {Size{{2, 5, 6, 6}}, Size{{1, 3, 4, 14}}, Size{{3, 1, 4, 4}}, Size{{1, 4, 2, 2}}}) {
      ModelConfig config = testing::small(family);
      config.frames = size.clip[1];
      config.heads = 3;
      const auto model = testing::random_model(config);
      const testing::Values values = testing::random_input(config, size.clip, 5);
      const testing::Result plain = testing::run(*model, values, {});
      const std::vector<float> target = testing::random_values(plain.shape, 9);
      const testing::Result one = testing::run(*model, values, {}, target);
      for (const Degrees& plan : plans_for(family, world().size())) {
        Team team(world(), plan);
        for (const bool recompute : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{} {} clip [{}] recompute {}", family, plan.text(), fmt::join(size.clip, ", "), recompute));
          expect_parity(run_on(team, *model, values, {.recompute = recompute}, target), one);
        }
      }
    }
  }
}

TEST(ModelRanks, WithKeyListsToo) {
  for (const std::string& family : testing::kFamilies) {
    // Spatial and temporal attention of stdit3 and latte share the lists: as many frames as places.
    const std::array<std::int64_t, 4> clip = {2, 6, 4, 6};
    ModelConfig config = testing::small(family);
    config.frames = clip[1];
    config.heads = 3;
    const std::int64_t places = clip[2] * clip[3] / 4;
    const std::int64_t tokens = testing::full_attention(family) ? clip[1] * places : places;
    const std::int64_t batch = testing::full_attention(family) ? clip[0] : clip[0] * places;
    ASSERT_EQ(places, clip[1]);
    std::vector<std::int32_t> order;  // wan follows one
    for (std::int64_t i = 0; testing::full_attention(family) && i < tokens; ++i) {
      order.push_back(static_cast<std::int32_t>((i * 7 + 5) % tokens));
    }
    const auto lists = std::make_shared<lists::OrderedLists>(
        lists::random_lists(batch, 3, tokens, lists::uniform_groups(tokens, 5), 0.4, 1, 3), order);
    const auto model = testing::random_model(config);
    const testing::Values values = testing::random_input(config, clip, 5);
    const std::vector<float> target = testing::random_values(testing::run(*model, values, {}).shape, 9);
    const testing::Result one = testing::run(*model, values, {.lists = lists}, target);
    for (const Degrees& plan : plans_for(family, world().size())) {
      Team team(world(), plan);
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} recompute {}", family, plan.text(), recompute));
        expect_parity(run_on(team, *model, values, {.recompute = recompute, .lists = lists}, target), one);
      }
    }
  }
}

// Frames that are given clean are modulated otherwise, also where a rank's tokens begin within one, or there are none.
TEST(ModelRanks, GivenFramesToo) {
  struct Given {
    std::array<std::int64_t, 4> clip;
    std::vector<std::uint8_t> frames;
  };
  for (const std::string family : {"wan", "stdit3"}) {
    for (const Given& given : {Given{{2, 5, 6, 6}, {1, 1, 0, 0, 0, 1, 0, 0, 0, 0}}, Given{{1, 3, 2, 2}, {1, 0, 0}}}) {
      ModelConfig config = testing::small(family);
      config.heads = 3;
      const auto model = testing::random_model(config);
      testing::Values values = testing::random_input(config, given.clip, 5);
      values.more.given_frames = given.frames;
      const std::vector<float> target = testing::random_values(testing::run(*model, values, {}).shape, 9);
      const testing::Result one = testing::run(*model, values, {}, target);
      for (const Degrees& plan : plans_for(family, world().size())) {
        Team team(world(), plan);
        SCOPED_TRACE(fmt::format("{} {} clip [{}]", family, plan.text(), fmt::join(given.clip, ", ")));
        expect_parity(run_on(team, *model, values, {}, target), one);
      }
    }
  }
}

// Groups of ranks with clips of their own, as many or one more than others.
TEST(ModelRanks, DataParallelClipsToo) {
  const int n = world().size();
  for (const std::string& family : testing::kFamilies) {
    const std::array<std::int64_t, 4> clip = {n + 1, 6, 4, 6};
    ModelConfig config = testing::small(family);
    config.frames = clip[1];
    const std::int64_t places = clip[2] * clip[3] / 4,
                       tokens = testing::full_attention(family) ? clip[1] * places : places;
    const std::int64_t batch = testing::full_attention(family) ? clip[0] : clip[0] * places;
    const auto lists = std::make_shared<lists::OrderedLists>(
        lists::random_lists(batch, config.heads, tokens, lists::uniform_groups(tokens, 5), 0.4, 1, 3));
    const auto model = testing::random_model(config);
    testing::Values values = testing::random_input(config, clip, 5);
    values.more.height[0] *= 2;  // counts for all clips
    if (family != "latte") {
      values.more.given_frames.assign(static_cast<std::size_t>(clip[0] * clip[1]), 0);
      for (std::size_t i = 0; i < values.more.given_frames.size(); i += 5) values.more.given_frames[i] = 1;
    }
    const std::vector<float> target = testing::random_values(testing::run(*model, values, {}).shape, 9);
    const testing::Result one = testing::run(*model, values, {.lists = lists}, target);
    for (const int sharing : {1, n % 2 == 0 ? n / 2 : 1}) {
      Team team(world(), {.ulysses = sharing});
      SCOPED_TRACE(fmt::format("{} on {} groups of {}", family, n / sharing, sharing));
      expect_parity(run_on(team, *model, values, {.lists = lists}, target), one);
    }
  }
}

TEST(ModelRanks, GroupWithoutAClipIsRefused) {
  const ModelConfig config = testing::small("wan");
  const auto model = testing::random_model(config);
  const testing::Values values = testing::random_input(config, {1, 2, 4, 4}, 5);
  Team team(world(), {});
  EXPECT_THROW(run_on(team, *model, values, {}, {}), Error);
}

// Two all-to-alls a pair of blocks, and none in the temporal one; against Ulysses in one block or in both.
TEST(ModelRanks, DspSendsTwoSwitchesAPairAndNoMore) {
  const int n = world().size();
  const std::array<std::int64_t, 4> clip = {1, 24, 8, 12};  // 24 frames x 24 places: even for 2, 3, 4, 6, 8 ranks
  ModelConfig config = testing::small("stdit3");
  config.layers = 1;
  config.heads = 24;
  const auto model = testing::random_model(config);
  const testing::Values values = testing::random_input(config, clip, 5);
  const std::vector<float> target = testing::random_values({1, config.out_channels(), 24, 8, 12}, 9);
  struct Sent {
    std::int64_t forward, backward;
  };
  const auto sent = [&](const Degrees& plan) {
    Team team(world(), plan);
    comm::Traffic& traffic = world().shared().traffic;
    traffic.clear();
    run_on(team, *model, values, {}, target);
    const Phase forward = Phase::kForward, backward = Phase::kBackward;
    return Sent{traffic.bytes_sent(work::Exchange::Kind::kAllToAll, &forward),
                traffic.bytes_sent(work::Exchange::Kind::kAllToAll, &backward)};
  };
  const std::int64_t m = 24 * 24 * config.width() * 4, pairs = config.layers;
  const Sent dsp = sent({.dsp = n});
  if (24 % n == 0) {
    EXPECT_EQ(dsp.forward, pairs * 2 * (m / n) * (n - 1) / n);
  }
  EXPECT_EQ(dsp.backward, dsp.forward);
  EXPECT_LE(dsp.forward, 0.5 * static_cast<double>(sent({.ulysses = n}).forward));
  EXPECT_LE(dsp.forward, 0.25 * static_cast<double>(sent({.ulysses = n, .both = true}).forward));
}

}  // namespace
}  // namespace reel::model
