// Wan with keys that are chosen while it runs.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/files/file.h"
#include "reel/model/testing.h"

namespace reel::model {
namespace {

using lists::KeyLists;
using sparsity::Controller;
using sparsity::SparsityConfig;
using testing::difference;
using testing::expect_same_bits;
using testing::kRounding;
using testing::largest;
using testing::random_input;
using testing::random_model;
using testing::small;
using testing::Values;

constexpr predict::ModelHeads kShape{2, 2, 8};  // of small("wan")

struct Pass {
  std::vector<float> sample;
  float loss = 0;
  double kept = 1;  // of the pairs of queries and keys
  std::map<std::string, std::vector<float>> gradients;
};

void expect_near(const Pass& got, const Pass& want) {
  EXPECT_LE(difference(got.sample, want.sample), kRounding * largest(want.sample));
  EXPECT_NEAR(got.loss, want.loss, kRounding * static_cast<double>(want.loss));
  double most = 0;
  for (const auto& [name, gradient] : want.gradients) most = std::max(most, largest(gradient));
  for (const auto& [name, gradient] : want.gradients) {
    EXPECT_LE(difference(got.gradients.at(name), gradient), kRounding * most) << name;
  }
}

void expect_equal(const Pass& got, const Pass& want) {
  tape::testing::expect_same_bits(got.sample, want.sample);
  EXPECT_EQ(got.loss, want.loss);
  for (const auto& [name, gradient] : want.gradients) {
    SCOPED_TRACE(name);
    tape::testing::expect_same_bits(got.gradients.at(name), gradient);
  }
}

Pass run_in(Denoiser& model, const Values& values, int threads_count, const auto& make_context,
            bool recompute = false) {
  Threads threads(threads_count);
  tape::Pool pool;
  Pass pass;
  {
    Tape tape(threads, pool, {});
    auto context = make_context(tape);
    context.recompute = recompute;
    model.parameters().clear_gradients();
    const Tensor sample = model.forward(context, values.on(tape));
    pass.sample = tape::testing::copy_of(sample.span());
    const Tensor loss = tape::mean_squared_error(tape, sample, tape.zeros(sample.shape()));
    pass.loss = loss.item();
    tape.backward(loss);
    if (context.sparsity) pass.kept = context.sparsity->pairs().kept_share();
  }
  EXPECT_EQ(pool.live_bytes(), 0u) << "tensors outlive their pass";
  model.parameters().zero_untouched_gradients();
  for (const Parameter& p : model.parameters().all()) pass.gradients[p.name].assign(p.gradient, p.gradient + p.size());
  return pass;
}

Pass run(std::int64_t step, Denoiser& model, const Values& values, Controller& controller, bool recompute = false,
         int threads = 1) {
  const sparsity::Pass pass{.kind = sparsity::Pass::Kind::kTraining, .step = step};
  return run_in(
      model, values, threads, [&](Tape& tape) { return Context(tape, pass, &controller); }, recompute);
}

Pass run_plain(Denoiser& model, const Values& values) {
  return run_in(model, values, 1, [](Tape& tape) { return Context(tape); });
}

// Another way to the same result: tokens stay in raster order, every query has a list of its own.
class Replay : public Context {
 public:
  Replay(Tape& on, const std::vector<KeyLists>& by_layer) : Context(on), by_layer_(by_layer) {}
  Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, const predict::Origin&,
                const Here&) override {
    return tape::attention(tape, q, k, v, std::make_shared<KeyLists>(by_layer_.at(static_cast<std::size_t>(layer))));
  }

 private:
  const std::vector<KeyLists>& by_layer_;
};

KeyLists in_raster_order(const KeyLists& lists, const lists::TokenOrder& order) {
  lists::KeyListsBuilder builder(lists.batch, lists.heads, order.tokens(), lists::uniform_groups(order.tokens(), 1));
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    for (std::int64_t h = 0; h < lists.heads; ++h) {
      if (lists.dense(b, h)) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t raster = 0; raster < order.tokens(); ++raster) {
        const std::int32_t query = order.place[static_cast<std::size_t>(raster)];
        const auto group = std::upper_bound(order.group_starts.begin(), order.group_starts.end(), query) - 1;
        std::vector<std::int32_t> keys;
        for (const std::int32_t entry : lists.list(b, h, group - order.group_starts.begin())) {
          for (int i = 0; i < lists.granularity && entry * lists.granularity + i < order.tokens(); ++i) {
            keys.push_back(order.raster[static_cast<std::size_t>(entry * lists.granularity + i)]);
          }
        }
        std::sort(keys.begin(), keys.end());
        builder.add(keys);
      }
    }
  }
  return builder.finish();
}

struct Case {
  const char* name;
  std::array<std::int64_t, 4> size = {2, 3, 10, 14};  // batch, frames, rows, columns of latents: 3 x 5 x 7 tokens
  std::vector<std::int64_t> group = {4, 4, 4};
  std::vector<std::uint8_t> given = {};
  const char* mode = "dynamic";
  std::int64_t without_rope = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<Case> kCases = {
    {.name = "ragged"},
    {.name = "lists that are chosen again", .group = {1, 1, 1}},
    {.name = "one group", .group = {3, 5, 7}},
    {.name = "one item", .size = {1, 4, 8, 16}, .group = {2, 2, 2}},
    {.name = "given frames", .size = {1, 5, 4, 6}, .group = {2, 2, 2}, .given = {1, 1, 1, 0, 0}},
    {.name = "given frames differ", .size = {2, 4, 6, 6}, .group = {3, 2, 2}, .given = {1, 0, 0, 0, 0, 0, 1, 1}},
    {.name = "static", .mode = "static"},
    {.name = "random", .mode = "random"},
    {.name = "window", .mode = "window"},
    {.name = "heads without rope", .without_rope = 1},
};

class SparseWan : public ::testing::TestWithParam<Case> {
 protected:
  SparseWan() {
    ModelConfig config = small("wan");
    config.heads_without_rope = GetParam().without_rope;
    model_ = random_model(config);
    sparsity_.mode = GetParam().mode;
    sparsity_.group = GetParam().group;
    sparsity_.profile_every = 1;
    if (sparsity_.mode == "dynamic") {
      sparsity_.layer_keys = {0.3, 0.6};
    } else {
      sparsity_.keys = 0.4;
    }
  }
  Values input(std::uint64_t step) const {
    Values values = random_input(model_->config(), GetParam().size, 5);
    values.latents_values = testing::random_values(values.latents, 10 + step);
    values.more.given_frames = GetParam().given;
    return values;
  }
  std::unique_ptr<Denoiser> model_;
  SparsityConfig sparsity_;
};

TEST_P(SparseWan, GradientsAreExactForListsThatChangeEveryStep) {
  Controller controller(sparsity_, kShape, {});
  std::vector<KeyLists> lists(2), before;
  int calls = 0;
  controller.on_lists = [&](int layer, const KeyLists& each) {
    lists[static_cast<std::size_t>(layer)] = each;
    ++calls;
  };
  for (std::int64_t step = 0; step < 3; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    const Values values = input(static_cast<std::uint64_t>(step));
    calls = 0;
    const Pass got = run(step, *model_, values, controller);
    EXPECT_EQ(calls, 2);
    const auto& size = GetParam().size;
    std::vector<std::int64_t> cuts;
    if (!GetParam().given.empty()) {
      for (std::int64_t t = 1; t < size[1]; ++t) {
        for (std::int64_t b = 0; b < size[0]; ++b) {
          const auto* frame = &GetParam().given[static_cast<std::size_t>(b * size[1] + t)];
          if (frame[0] != frame[-1] && (cuts.empty() || cuts.back() != t)) cuts.push_back(t);
        }
      }
    }
    const auto order = std::make_shared<lists::TokenOrder>(
        lists::tile_order({size[1], size[2] / 2, size[3] / 2}, sparsity_.tile(), cuts));
    std::vector<KeyLists> raster;
    for (const KeyLists& each : lists) {
      if (order->groups() > 1) {
        EXPECT_LT(each.density(), 0.95);
      }
      ASSERT_EQ(each.groups(), order->groups());
      raster.push_back(in_raster_order(each, *order));
    }
    EXPECT_NEAR(got.kept, (lists[0].density() + lists[1].density()) / 2, 1e-12);
    expect_near(got, run_in(*model_, values, 1, [&](Tape& tape) { return Replay(tape, raster); }));
    if (step > 0 && sparsity_.mode != std::string("window") && order->groups() > 1) {
      EXPECT_NE(lists[0].keys, before[0].keys);
    }
    before = lists;
    const Pass plain = run_plain(*model_, values);
    if (order->groups() > 1) {
      EXPECT_GT(difference(got.sample, plain.sample), 1e-3 * largest(plain.sample));
    }
  }
}

TEST_P(SparseWan, RecomputingAndThreadsChangeNoBit) {
  Controller kept(sparsity_, kShape, {}), recomputed(sparsity_, kShape, {});
  int calls = 0, chosen_again = 0;
  recomputed.on_lists = [&](int, const KeyLists& lists) {
    ++calls;
    const auto& size = GetParam().size;
    chosen_again += lists.keys.size() > static_cast<std::size_t>(size[0] * size[1] * size[2] * size[3] / 4 * 16);
  };
  const testing::Folder folder("sparse_recompute");
  for (std::int64_t step = 0; step < 2; ++step) {
    const Values values = input(static_cast<std::uint64_t>(step));
    const Pass again = run(step, *model_, values, recomputed, true, 3), once = run(step, *model_, values, kept);
    expect_equal(again, once);
    EXPECT_EQ(again.kept, once.kept);
  }
  EXPECT_EQ(calls, 4);
  const std::string name = GetParam().name;  // both kinds are here
  if (name == "lists that are chosen again") {
    EXPECT_EQ(chosen_again, 4);
  }
  if (name == "ragged") {
    EXPECT_EQ(chosen_again, 0);
  }
  kept.save(folder / "kept");
  recomputed.save(folder / "recomputed");
  EXPECT_TRUE(read_file(folder / "kept") == read_file(folder / "recomputed")) << "a second run teaches nothing";
}

TEST_P(SparseWan, WithEveryHeadDenseItIsThePlainModel) {
  sparsity_.layer_keys.clear();
  sparsity_.start = 1000;
  Controller controller(sparsity_, kShape, {});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Values values = input(static_cast<std::uint64_t>(step));
    const Pass got = run(step, *model_, values, controller);
    expect_near(got, run_plain(*model_, values));
    EXPECT_EQ(got.kept, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SparseWan, ::testing::ValuesIn(kCases), [](const auto& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST(SparseWanFallback, IsCountedOnceALayerAlsoWhereBlocksRunAgain) {
  const auto model = random_model(small("wan"));
  SparsityConfig config;
  config.mode = "dynamic";
  config.layer_keys = {0.3, 0.3};
  config.group = {2, 2, 2};
  for (const bool recompute : {false, true}) {
    Controller controller(config, kShape, {});
    Values values = random_input(model->config(), {1, 4, 8, 8}, 5);
    const Pass sound = run(0, *model, values, controller, recompute);
    EXPECT_LT(sound.kept, 0.9);
    values.latents_values[7] = std::nanf("");
    const Pass broken = run(1, *model, values, controller, recompute);
    EXPECT_TRUE(std::isnan(broken.loss)) << "as the plain model";
    EXPECT_EQ(broken.kept, 1);
    EXPECT_EQ(controller.fallbacks(), 2) << (recompute ? "recomputed" : "kept");
    values = random_input(model->config(), {1, 4, 8, 8}, 5);
    EXPECT_EQ(run(2, *model, values, controller, recompute).loss, sound.loss);
    EXPECT_EQ(controller.fallbacks(), 2);
  }
}

class WithLists : public Context {
 public:
  WithLists(Tape& on, std::shared_ptr<const lists::OrderedLists> given, Controller* controller = nullptr)
      : Context(on, {}, controller) {
    lists = std::move(given);
  }
};

// What --dump-masks writes, given to a pass in another process: the tokens go into the order of the lists, and the pass
// is the one that chose them.
TEST(GivenLists, OfATrainingPassGiveItsPrediction) {
  ModelConfig one_layer = small("wan");
  one_layer.layers = 1;
  const auto model = random_model(one_layer);
  const testing::Folder folder("given_lists");
  int in_tiles = 0;
  for (const Case& c : kCases) {
    if (c.without_rope != 0) continue;
    SCOPED_TRACE(c.name);
    SparsityConfig config;
    config.mode = c.mode;
    config.group = c.group;
    config.profile_every = 1;
    if (config.mode == "dynamic") {
      config.layer_keys = {0.4};
    } else {
      config.keys = 0.4;
    }
    Controller controller(config, {1, 2, 8}, {});
    controller.on_lists = [&](int, const lists::OrderedLists& each) { lists::save(each, folder / "lists"); };
    Values values = random_input(one_layer, c.size, 5);
    values.more.given_frames = c.given;
    run(0, *model, values, controller);
    const Pass chosen = run(1, *model, values, controller);
    const auto lists = std::make_shared<lists::OrderedLists>(lists::load_key_lists(folder / "lists"));
    EXPECT_EQ(lists->head_dim, 8);
    in_tiles += lists->in_raster_order() ? 0 : 1;
    const Pass given = run_in(*model, values, 1, [&](Tape& tape) { return WithLists(tape, lists); });
    expect_equal(given, chosen);
  }
  EXPECT_EQ(in_tiles, 7) << "tiles of one token and of all tokens are raster order";
}

// The same pairs under other numbers of tokens.
TEST(GivenLists, OfPermutedTokensGiveTheSamePrediction) {
  const auto model = random_model(small("wan"));
  const Values values = random_input(model->config(), {2, 3, 6, 8}, 5);
  constexpr std::int32_t kTokens = 3 * 3 * 4;
  const KeyLists raster = lists::random_lists(2, 2, kTokens, lists::uniform_groups(kTokens, 1), 0.3, 1, 3);
  std::vector<std::int32_t> order(kTokens);
  for (std::int32_t i = 0; i < kTokens; ++i) order[static_cast<std::size_t>(i)] = (i * 7 + 5) % kTokens;
  const std::vector<std::int32_t> place = lists::inverse(order);
  lists::KeyListsBuilder builder(2, 2, kTokens, raster.group_starts);
  for (std::int64_t head = 0; head < 4; ++head) {
    for (const std::int32_t query : order) {
      std::vector<std::int32_t> keys;
      for (const std::int32_t key : raster.list(head / 2, head % 2, query)) {
        keys.push_back(place[static_cast<std::size_t>(key)]);
      }
      std::sort(keys.begin(), keys.end());
      builder.add(keys);
    }
  }
  const auto run_with = [&](const lists::OrderedLists& lists) {
    return run_in(*model, values, 1,
                  [&](Tape& tape) { return WithLists(tape, std::make_shared<lists::OrderedLists>(lists)); });
  };
  expect_near(run_with(lists::OrderedLists(builder.finish(), order)), run_with(lists::OrderedLists(raster)));
}

TEST(GivenLists, ThatCannotBeFollowedAreRefused) {
  const auto turned = [](std::int64_t batch, std::int32_t tokens, std::int64_t head_dim = 0) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(tokens));
    std::iota(order.rbegin(), order.rend(), 0);
    return std::make_shared<lists::OrderedLists>(lists::dense_lists(batch, 2, tokens, tokens), order, head_dim);
  };
  const auto message = [&](const char* family, std::shared_ptr<const lists::OrderedLists> lists,
                           std::vector<std::uint8_t> given = {}) {
    const auto model = random_model(small(family));
    Values values = random_input(model->config(), {1, 4, 4, 4}, 3);
    values.more.given_frames = std::move(given);
    return message_of([&] { testing::run(*model, values, {.lists = std::move(lists)}); });
  };
  EXPECT_EQ(message("wan", turned(1, 16)), "no error");
  for (const char* family : {"stdit3", "latte"}) {
    EXPECT_EQ(
        message(family, turned(4, 4)),
        "the lists are of tokens in an order of their own, which this model does not follow | family wan puts its "
        "tokens in that order; others take lists in raster order");
  }
  EXPECT_EQ(message("wan", turned(1, 12)),
            "the lists have an order of 12 tokens, the clip has 4 x 2 x 2 = 16 | lists must be made for this model and "
            "this input");
  EXPECT_NE(message("wan", turned(1, 16), {1, 0, 0, 0}).find("mixes tokens of frames before and from 1"),
            std::string::npos);
  EXPECT_NE(message("wan", turned(1, 16, 64)).find("heads of 8 floats, the lists are of heads of 64"),
            std::string::npos);
  const auto model = random_model(small("wan"));
  const Values values = random_input(model->config(), {1, 4, 4, 4}, 3);
  SparsityConfig config;
  config.mode = "window";
  config.keys = 0.5;
  Controller controller(config, kShape, {});
  EXPECT_EQ(message_of([&] {
              run_in(*model, values, 1, [&](Tape& tape) { return WithLists(tape, turned(1, 16), &controller); });
            }),
            "there are key lists, and sparsity chooses others | use one of them");
}

}  // namespace
}  // namespace reel::model
