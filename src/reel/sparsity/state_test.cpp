// What checkpoints keep of a controller.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "reel/base/testing.h"
#include "reel/files/folder_testing.h"
#include "reel/sparsity/testing.h"

namespace reel::sparsity {
namespace {

using kernels::testing::expect_same_bits;
using lists::KeyLists;
using testing::Layer;
using testing::Passes;

constexpr Controller::Options kMeasured{.break_even = {0.5123456789, 0.7123456789}};

Layer content(const Passes& passes, std::uint64_t seed) {
  Layer x = passes.layer(seed, 2);
  x.look_up(passes.order(), static_cast<std::int64_t>(seed % 2));
  return x;
}

class State : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "sparsity.safetensors"; }

  // The file, with some tensors changed.
  struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  void change(const std::function<void(std::map<std::string, Tensor>&)>& edit) const {
    std::map<std::string, Tensor> tensors;
    {
      const SafetensorsFile file = SafetensorsFile::open(path());
      for (const std::string& name : file.names()) {
        const Buffer<float> values = file.read_f32(name);
        tensors[name] = {file.info(name).shape, {values.begin(), values.end()}};
      }
    }
    edit(tensors);
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors) writer.add(name, tensor.shape, std::span<const float>(tensor.values));
    writer.write(path());
  }
  TempFolder folder_;
};

TEST_F(State, ALoadedControllerGoesOnAsTheSavedOne) {
  for (const char* mode : {"dynamic", "static", "random", "window", "own"}) {
    SCOPED_TRACE(mode);
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    // Dynamic: before the first look, with one, with heads that turn, and with heads that have.
    const bool remembers = config.mode == "dynamic" || config.mode == "static";
    for (const int saved_at : remembers ? std::vector<int>{0, 1, 2, 4} : std::vector<int>{0, 2}) {
      Passes saved(config, kMeasured), loaded(config, {.break_even = {0.1, 9}});
      for (Passes* each : {&saved, &loaded}) each->order({4, 8, 8});
      for (int step = 0; step < saved_at; ++step) saved.train(step, content(saved, static_cast<std::uint64_t>(step)));
      saved.controller().save(path());
      loaded.controller().load(path());
      EXPECT_EQ(loaded.controller().break_even().share, saved.controller().break_even().share);
      EXPECT_EQ(loaded.controller().break_even().tile_cost, saved.controller().break_even().tile_cost);
      for (int step = saved_at; step < saved_at + 2; ++step) {
        const Layer x = content(saved, static_cast<std::uint64_t>(step));
        expect_same_bits(saved.train(step, x), loaded.train(step, x));
        EXPECT_TRUE(testing::same(saved.lists[0], loaded.lists[0])) << "saved at " << saved_at << ", step " << step;
      }
      // Where the run stopped training: samples.
      const Layer x = content(saved, 50);
      expect_same_bits(saved.sample(x), loaded.sample(x));
    }
  }
}

TEST_F(State, ABreakEvenOfTheRunFileWins) {
  Passes saved(Passes::dynamic(), kMeasured);
  saved.controller().save(path());
  SparsityConfig config = Passes::dynamic();
  config.break_even = 0.25;
  Passes told(config, kMeasured);
  told.controller().load(path());
  EXPECT_EQ(told.controller().break_even().share, 0.25);
}

TEST_F(State, AnotherModelIsAnError) {
  Passes saved(Passes::dynamic(), kMeasured);
  saved.train(0, content(saved, 0));
  saved.controller().save(path());
  for (const predict::ModelHeads& shape :
       {predict::ModelHeads{3, 2, 16}, predict::ModelHeads{2, 4, 16}, predict::ModelHeads{2, 2, 8}}) {
    Passes other(Passes::dynamic(), kMeasured, shape);
    const std::string message = message_of([&] { other.controller().load(path()); });
    EXPECT_TRUE(message.starts_with(path() + ": ")) << message;
    EXPECT_NE(message.find(" | the run file must describe the model"), std::string::npos) << message;
  }
  Passes same(Passes::dynamic(), kMeasured);
  EXPECT_NE(message_of([&] { same.controller().load(folder_ / "none"); }), "no error");
}

// A predictor that gives no number: dense, counted, and well again once it has learnt anew.
TEST_F(State, MomentsThatAreNotFiniteNeverReachTheOutput) {
  Passes saved(Passes::dynamic(), {.break_even = {1, 1}});
  for (int step = 0; step < 4; ++step) {
    Layer x = content(saved, static_cast<std::uint64_t>(step));
    x.look_up(saved.order(), 0);
    x.look_up(saved.order(), 1);
    saved.train(step, x);
  }
  ASSERT_TRUE(saved.sparse(0) && saved.sparse(1));
  saved.controller().save(path());
  change([](auto& tensors) { tensors["moments"].values[0] = std::nanf(""); });  // of layer 0, head 0
  SparsityConfig config = Passes::dynamic();
  config.profile_every = 20;  // 4 at first
  Passes loaded(config, {.break_even = {1, 1}}), dense({.dense_layers = {0}});
  loaded.controller().load(path());
  Layer x = content(loaded, 5);
  x.look_up(loaded.order(), 0);
  expect_same_bits(loaded.train(5, x), dense.train(5, x));
  EXPECT_EQ(loaded.controller().fallbacks(), 1);
  expect_same_bits(loaded.sample(x), dense.sample(x));
  EXPECT_EQ(loaded.controller().fallbacks(), 2);
  for (const int step : {8, 12, 16, 20, 24, 28}) {
    x = content(loaded, static_cast<std::uint64_t>(step));
    x.look_up(loaded.order(), 0);
    for (const float value : loaded.train(step, x)) ASSERT_TRUE(std::isfinite(value));
  }
  EXPECT_TRUE(loaded.sparse(0)) << "it learns anew from sound clips";
  EXPECT_FALSE(loaded.lists[0].dense(0, 0));
}

TEST_F(State, DamagedFilesAreErrors) {
  for (const char* mode : {"dynamic", "static"}) {
    SparsityConfig config = Passes::dynamic();
    config.mode = mode;
    Passes saved(config, kMeasured);
    saved.train(0, content(saved, 0));
    const auto message = [&](const auto& edit) {
      saved.controller().save(path());
      change(edit);
      Passes loaded(config, kMeasured);
      return message_of([&] { loaded.controller().load(path()); });
    };
    using Tensors = std::map<std::string, Tensor>;
    EXPECT_EQ(message([](Tensors&) {}), "no error");
    // A head whose share, samples or decision is no number or out of range.
    for (std::size_t i = 0; i < sizeof(Head) / sizeof(float); ++i) {
      EXPECT_NE(message([&](Tensors& t) { t["heads"].values[i] = std::nanf(""); }), "no error") << i;
    }
    EXPECT_NE(message([&](Tensors& t) { t["heads"].values[offsetof(Head, samples) / 4] = -3; }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t["heads"].values[offsetof(Head, samples) / 4] = 1e9f; }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t["heads"].values[offsetof(Head, needed_predicted) / 4] = 1e9f; }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t.erase("break_even"); }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t["break_even"] = {{1}, {0.5f}}; }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t.erase("moments"); }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t.erase("moments_known"); }), "no error");
    EXPECT_NE(message([&](Tensors& t) { t.erase("heads"); }), "no error");
  }
}

// Averages of a run whose clips had another size: begun anew, and nothing is read that is not there.
TEST_F(State, AveragesOfAnotherGridAreLeftOut) {
  SparsityConfig config = Passes::dynamic();
  config.mode = "static";
  Passes saved(config);
  saved.train(0, content(saved, 0));
  saved.controller().save(path());
  config.profile_every = 10;
  for (const std::array<std::int64_t, 3>& grid : {std::array<std::int64_t, 3>{8, 8, 12}, {8, 8, 4}, {1, 1, 1}}) {
    Controller fresh(config, {2, 2, 16}, {});
    fresh.load(path());
    Chooser first(fresh, testing::training(1));
    EXPECT_EQ(first.order(grid, {}).tokens(), grid[0] * grid[1] * grid[2]);
    Threads threads(1);
    tape::Pool pool;
    tape::Tape tape(threads, pool, {.gradients = false});
    const Layer x(1, grid[0] * grid[1] * grid[2], {2, 2, 16}, 1);
    const tape::Tensor q = tape.copy_in({1, x.tokens, 2, 16}, x.q);
    KeyLists lists;
    fresh.on_lists = [&](int, const KeyLists& each) { lists = each; };
    testing::attention_of(first, tape, 0, q, q, q);
    EXPECT_TRUE(lists.dense(0, 0)) << "nothing is known about this size";
    Chooser second(fresh, testing::training(2));
    second.order(grid, {});
    testing::attention_of(second, tape, 0, q, q, q);
    EXPECT_FALSE(lists.dense(0, 0));
  }
}

}  // namespace
}  // namespace reel::sparsity
