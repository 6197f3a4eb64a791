#include "reel/model/denoiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/model/testing.h"

namespace reel::model {
namespace {

using testing::difference;
using testing::kFamilies;
using testing::kRounding;
using testing::largest;
using testing::random_input;
using testing::random_model;
using testing::Result;
using testing::small;
using testing::Values;

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_LE(difference(got, want), kRounding * largest(want));
}

template <class T>
std::vector<T> part(const std::vector<T>& all, std::int64_t parts, std::int64_t which) {
  const auto size = static_cast<std::ptrdiff_t>(all.size()) / parts;
  return {all.begin() + which * size, all.begin() + (which + 1) * size};
}

Values item(const Values& batch, std::int64_t which) {
  const std::int64_t items = batch.latents[0];
  Values one = batch;
  one.latents[0] = one.text[0] = 1;
  one.latents_values = part(batch.latents_values, items, which);
  one.text_values = part(batch.text_values, items, which);
  one.more.times = part(batch.more.times, items, which);
  one.more.given_frames = part(batch.more.given_frames, items, which);
  one.more.text_mask = part(batch.more.text_mask, items, which);
  one.more.fps = part(batch.more.fps, items, which);
  one.more.height = part(batch.more.height, items, which);
  one.more.width = part(batch.more.width, items, which);
  return one;
}

TEST(Denoiser, ABatchIsItsItemsOneByOne) {
  for (const std::string& family : kFamilies) {
    SCOPED_TRACE(family);
    const auto model = random_model(small(family));
    Values values = random_input(model->config(), {3, 4, 6, 4}, 5);
    if (family != "latte") values.more.given_frames = {1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0};
    if (family == "stdit3") values.more.text_mask = {1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0};
    const Result all = testing::run(*model, values, {.threads = 2});
    EXPECT_EQ(all.shape, (tape::Shape{3, 3, 4, 6, 4}));
    for (std::int64_t i = 0; i < 3; ++i) {
      expect_near(testing::run(*model, item(values, i)).sample, part(all.sample, 3, i));
    }
  }
}

TEST(Denoiser, OneFrameIsAClip) {
  for (const std::string& family : kFamilies) {
    SCOPED_TRACE(family);
    const auto model = random_model(small(family));
    const Result result = testing::run(*model, random_input(model->config(), {2, 1, 4, 6}, 3));
    EXPECT_EQ(result.shape, (tape::Shape{2, 3, 1, 4, 6}));
    EXPECT_TRUE(std::isfinite(result.loss));
    for (const auto& [name, gradient] : result.gradients) {
      EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return std::isfinite(g); })) << name;
    }
  }
}

TEST(Denoiser, FramesNotGivenChangeNothingAndAllGivenIsTimeZero) {
  for (const std::string family : {"wan", "stdit3"}) {
    SCOPED_TRACE(family);
    const auto model = random_model(small(family));
    Values values = random_input(model->config(), {2, 3, 4, 4}, 3);
    const std::vector<float> plain = testing::run(*model, values).sample;
    values.more.given_frames.assign(6, 0);
    expect_near(testing::run(*model, values).sample, plain);
    if (family == "stdit3") continue;  // its last norm sees given frames twice
    values.more.given_frames.assign(6, 1);
    const std::vector<float> given = testing::run(*model, values).sample;
    values.more.given_frames.clear();
    values.more.times.assign(2, 0.0f);
    expect_near(given, testing::run(*model, values).sample);
    EXPECT_GT(difference(given, plain), 0.01);
  }
}

TEST(Denoiser, TextsMayBeLongerThanThoseStdit3WasMadeFor) {
  const auto model = random_model(small("stdit3"));  // text_tokens: 6
  Values values = random_input(model->config(), {1, 2, 4, 4}, 20);
  const std::vector<float> sample = testing::run(*model, values).sample;
  values.more.text_mask.assign(20, 1);
  expect_near(testing::run(*model, values).sample, sample);
}

TEST(Denoiser, OfficialWanReadsZerosBehindAShortText) {
  ModelConfig c = small("wan");
  c.official_names = true;
  const auto model = random_model(c);
  Values values = random_input(c, {2, 2, 4, 4}, 4);
  const std::vector<float> sample = testing::run(*model, values).sample;
  Values padded = values;
  padded.text = {2, 6, 12};
  padded.text_values.assign(2 * 6 * 12, 0.0f);
  for (std::ptrdiff_t i = 0; i < 2; ++i) {
    std::copy_n(values.text_values.begin() + i * 4 * 12, 4 * 12, padded.text_values.begin() + i * 6 * 12);
  }
  EXPECT_EQ(testing::run(*model, padded).sample, sample);
}

// Without positions a transformer does not know which frame comes first.
TEST(Denoiser, HeadsWithoutRopeSeeNoOrder) {
  for (const std::int64_t without : {0, 1, 2}) {
    ModelConfig c = small("wan");
    c.heads_without_rope = without;
    const auto model = random_model(c);
    Values values = random_input(c, {1, 3, 2, 2}, 3);
    const auto reversed = [](const std::vector<float>& clip) {  // [channels, 3, 2, 2] with its frames turned around
      std::vector<float> result(clip.size());
      for (std::size_t i = 0; i < clip.size(); ++i) result[i / 12 * 12 + (2 - i / 4 % 3) * 4 + i % 4] = clip[i];
      return result;
    };
    const std::vector<float> forwards = testing::run(*model, values).sample;
    values.latents_values = reversed(values.latents_values);
    const std::vector<float> backwards = testing::run(*model, values).sample;
    if (without == 2) {
      expect_near(reversed(backwards), forwards);
    } else {
      EXPECT_GT(difference(reversed(backwards), forwards), 0.001 * largest(forwards)) << without;
    }
  }
}

TEST(Denoiser, EverySelfAttentionGoesThroughTheContextInOrder) {
  class Door : public Context {
   public:
    using Context::Context;
    Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, const predict::Origin& origin,
                  const Here& here) override {
      layers.push_back(layer);
      shapes.push_back(q.shape());
      return Context::attend(layer, q, k, v, origin, here);
    }
    std::vector<int> layers;
    std::vector<tape::Shape> shapes;
  };
  for (const std::string& family : kFamilies) {
    const auto model = random_model(small(family));
    Threads threads(1);
    tape::Pool pool;
    Tape tape(threads, pool, {.gradients = false});
    Door door(tape);
    model->forward(door, random_input(model->config(), {2, 4, 4, 6}, 3).on(tape));
    std::vector<int> all(static_cast<std::size_t>(model->attentions()));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(door.layers, all) << family;
    using Shapes = std::vector<tape::Shape>;
    const Shapes wan = {{2, 24, 2, 8}, {2, 24, 2, 8}};
    const Shapes pairs = {{8, 6, 2, 8}, {12, 4, 2, 8}, {8, 6, 2, 8}, {12, 4, 2, 8}};  // space, time, space, time
    EXPECT_EQ(door.shapes, testing::full_attention(family) ? wan : pairs) << family;
  }
}

TEST(Denoiser, RecomputingKeepsOneBlockInsteadOfAll) {
  for (const std::string& family : kFamilies) {
    ModelConfig c = small(family);
    c.layers = 16;
    const auto model = make_denoiser(c, tape::Parameters::With::kGhostGradients);
    const Values values = random_input(c, {1, 4, 8, 8}, 3);
    const std::size_t kept = testing::run(*model, values, {.ghost = true}).peak;
    const std::size_t recomputed = testing::run(*model, values, {.recompute = true, .ghost = true}).peak;
    EXPECT_LT(recomputed, kept / 4) << family;
  }
}

TEST(Denoiser, InputsOfTheWrongShapeAreRefused) {
  const auto message = [](const std::string& family, const auto& change) {
    const auto model = random_model(small(family));
    Values values = random_input(model->config(), {2, 4, 4, 6}, 3);
    change(values);
    return message_of([&] { testing::run(*model, values); });
  };
  const auto resize = [](std::vector<float>& values, const tape::Shape& shape) {
    values.assign(static_cast<std::size_t>(tape::elements(shape)), 1.0f);
  };
  const auto latents = [&](const tape::Shape& shape) {
    return [&resize, shape](Values& v) { resize(v.latents_values, v.latents = shape); };
  };
  const auto text = [&](const tape::Shape& shape) {
    return [&resize, shape](Values& v) { resize(v.text_values, v.text = shape); };
  };
  const auto expect = [](const std::string& found, const std::string& wanted) {
    EXPECT_NE(found.find(wanted), std::string::npos) << found << "\n  expected " << wanted;
  };
  expect(message("wan", latents({2, 4, 4, 4, 6})), "hidden_states is [2, 4, 4, 4, 6], this model takes [batch, 3,");
  expect(message("wan", latents({2, 3, 4, 4})), "hidden_states is [2, 3, 4, 4]");
  expect(message("wan", latents({2, 3, 4, 1, 6})), "at least one patch of [1, 2, 2]");
  expect(message("wan", text({1, 3, 12})), "encoder_hidden_states is [1, 3, 12], this model takes [2, tokens, 12]");
  expect(message("wan", text({2, 3, 11})), "encoder_hidden_states is [2, 3, 11]");
  expect(message("wan", text({2, 0, 12})), "encoder_hidden_states is [2, 0, 12]");
  expect(message("wan", [](Values& v) { v.more.times = {1}; }), "timestep has 1 numbers, this input needs 2");
  expect(message("wan", [](Values& v) { v.more.given_frames = {1}; }), "x_mask has 1 numbers, this input needs 8");
  expect(message("stdit3", [](Values& v) { v.more.text_mask = {1}; }), "mask has 1 numbers, this input needs 6");
  expect(message("stdit3", [](Values& v) { v.more.text_mask.assign(6, 0); }), "no token of text 0 counts");
  expect(message("stdit3", [](Values& v) { v.more.fps.clear(); }), "fps has 0 numbers, this input needs 2");
  expect(message("stdit3", [](Values& v) { v.more.height.clear(); }), "height has 0 numbers, this input needs 2");
  expect(message("stdit3", [](Values& v) { v.more.height[0] = 0; }), "height 0, width");
  expect(message("latte", latents({2, 3, 3, 4, 6})), "has 3 frames, this model was made for 4");
  expect(message("latte", [](Values& v) { v.more.given_frames.assign(8, 1); }), "latte cannot be given clean frames");
  expect(message("latte", [](Values& v) { v.more.text_mask.assign(6, 1); }), "latte takes no text mask");
}

TEST(Denoiser, ListsOfAnotherShapeAreRefused) {
  const auto model = random_model(small("wan"));
  const Values values = random_input(model->config(), {1, 2, 4, 4}, 3);
  const auto lists = std::make_shared<lists::OrderedLists>(lists::dense_lists(1, 2, 8, 7));
  EXPECT_EQ(message_of([&] { testing::run(*model, values, {.lists = lists}); }),
            "self-attention 0 has batch 1, 2 heads, 8 queries, 8 keys; the lists have 1, 2, 8, 7 | lists must be made "
            "for this model and this input");
}

}  // namespace
}  // namespace reel::model
