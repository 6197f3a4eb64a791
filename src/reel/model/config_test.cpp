#include "reel/model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reel/base/testing.h"
#include "reel/model/testing.h"

namespace reel::model {
namespace {

using testing::kFamilies;
using testing::small;

// A model that differs from the defaults wherever its family lets it.
ModelConfig unusual(const std::string& family) {
  ModelConfig c = small(family);
  c.layers = 3;
  c.heads = 5;
  c.head_dim = 24;
  c.channels = 7;
  c.text_width = 33;
  c.text_tokens = 11;
  c.rope_theta = family == "latte" ? 10000 : 123.25;
  c.heads_without_rope = family == "latte" ? 0 : 2;
  c.patch = family == "latte" ? std::vector<std::int64_t>{1, 3, 3} : std::vector<std::int64_t>{2, 3, 1};
  c.qk_norm = c.cross_norm = c.attention_bias = false;
  c.sigma = family != "wan";
  if (family != "latte") c.ffn = 123;
  if (family == "wan") {
    c.out = 9;
    c.time_width = 18;
  }
  if (family != "stdit3") c.eps = 1e-5;
  c.base_pixels = 300;
  c.base_latents = 30;
  c.frames = 6;
  return c;
}

// The keys that the family's config.json knows.
void expect_same_model(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(config_json(a), config_json(b));
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.width(), b.width());
  EXPECT_EQ(a.inner(), b.inner());
  EXPECT_EQ(a.out_channels(), b.out_channels());
  EXPECT_EQ(a.sigma, b.sigma);
  EXPECT_EQ(a.patch, b.patch);
  EXPECT_EQ(a.eps, b.eps);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.heads_without_rope, b.heads_without_rope);
  EXPECT_EQ(a.official_names, b.official_names);
  const auto shapes = [](const ModelConfig& c) {
    const auto model = make_denoiser(c, tape::Parameters::With::kGhost);
    std::vector<std::string> all;
    for (const Parameter& p : model->parameters().all()) all.push_back(p.name + tape::shape_text(p.shape));
    return all;
  };
  EXPECT_EQ(shapes(a), shapes(b));
}

TEST(ModelConfig, ItsJsonDescribesTheSameModel) {
  for (const std::string& family : kFamilies) {
    for (const ModelConfig& c : {small(family), unusual(family)}) {
      SCOPED_TRACE(config_json(c));
      expect_same_model(parse_config(config_json(c), "config.json"), c);
    }
  }
  ModelConfig official = unusual("wan");
  official.official_names = true;
  expect_same_model(parse_config(config_json(official), "config.json"), official);
}

TEST(ModelConfig, EveryInnerWidthOfStdit3SurvivesItsMlpRatio) {
  ModelConfig c = small("stdit3");
  for (const std::int64_t heads : {1, 7, 16, 25}) {  // width 56 and inner 61 is the first that a plain quotient breaks
    c.heads = heads;
    for (c.ffn = 1; c.ffn <= 6 * c.width(); ++c.ffn) {
      ASSERT_EQ(parse_config(config_json(c), "config.json").inner(), c.ffn) << "width " << c.width();
    }
  }
}

TEST(ModelConfig, WhatAFileLeavesOutIsAsItsClassHasIt) {
  const ModelConfig wan = parse_config(R"({"_class_name": "WanTransformer3DModel"})", "config.json");
  EXPECT_EQ(wan.layers, 40);
  EXPECT_EQ(wan.width(), 5120);
  EXPECT_EQ(wan.inner(), 13824);
  EXPECT_FALSE(wan.official_names);
  const std::string few = R"({"_class_name": "WanTransformer3DModel", "in_channels": 4)";
  EXPECT_EQ(parse_config(few + "}", "config.json").out_channels(), 16);
  EXPECT_EQ(parse_config(few + R"(, "out_channels": null})", "config.json").out_channels(), 4);
  const ModelConfig official = parse_config(R"({"_class_name": "WanModel"})", "config.json");
  EXPECT_EQ(official.layers, 32);
  EXPECT_EQ(official.width(), 2048);
  EXPECT_EQ(official.text_tokens, 512);
  EXPECT_TRUE(official.official_names);
  const ModelConfig stdit3 = parse_config(R"({"_class_name": "STDiT3"})", "config.json");
  EXPECT_EQ(stdit3.layers, 28);
  EXPECT_EQ(stdit3.inner(), 4608);
  EXPECT_EQ(stdit3.out_channels(), 8);
}

// A config.json that works, with some keys changed.
std::string changed(const std::string& family, const nlohmann::json& changes) {
  nlohmann::json all = nlohmann::json::parse(config_json(small(family)));
  all.update(changes);
  return all.dump();
}

TEST(ModelConfig, BrokenFilesSayWhichKeyIsWrong) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"", "config.json: not JSON"},
      {"[1]", "config.json: not a JSON object"},
      {"{}", "config.json: _class_name is ''"},
      {R"({"_class_name": "CogVideoXTransformer3DModel"})", "config.json: _class_name is 'CogVideoX"},
      {R"({"_class_name": 3})", "config.json: _class_name must be a string, found 3"},
      {changed("wan", {{"num_layers", "two"}}), "config.json: num_layers must be an integer from 1 to 1048576, found"},
      {changed("wan", {{"num_layers", 2.5}}), "config.json: num_layers must be an integer"},
      {changed("wan", {{"num_layers", 0}}), "config.json: num_layers must be an integer"},
      {changed("wan", {{"num_layers", 1001}}), "config.json: model: 1001 layers"},
      {changed("wan", {{"ffn_dim", -4}}), "config.json: ffn_dim must be an integer"},
      {changed("wan", {{"num_attention_heads", 18446744073709551615u}}), "config.json: num_attention_heads must be"},
      {changed("wan", {{"attention_head_dim", 12}}), "config.json: model: head_dim is 12"},
      {changed("wan", {{"cross_attn_norm", 1}}), "config.json: cross_attn_norm must be true or false, found 1"},
      {changed("wan", {{"eps", "small"}}), "config.json: eps must be a number"},
      {changed("wan", {{"eps", -1}}), "config.json: model: eps is -1"},
      {changed("wan", {{"patch_size", {1, 2}}}), "config.json: patch_size must be three integers"},
      {changed("wan", {{"patch_size", {1, 2, "x"}}}), "config.json: patch_size must be three integers"},
      {changed("wan", {{"patch_size", {1, 2, 0}}}), "config.json: patch_size must be three integers"},
      {changed("wan", {{"freq_dim", 7}}), "config.json: model: time_width 7 is odd"},
      {changed("wan", {{"image_dim", 1280}}), "config.json: an image-to-video model"},
      {changed("wan", {{"added_kv_proj_dim", 5120}}), "config.json: an image-to-video model"},
      {R"({"_class_name": "WanModel", "model_type": "i2v"})", "config.json: model_type is i2v"},
      {R"({"_class_name": "WanModel", "qk_norm": false})", "config.json: qk_norm is false"},
      {R"({"_class_name": "WanModel", "dim": 100})", "config.json: dim 100 cannot be split into 16 heads"},
      {changed("stdit3", {{"hidden_size", 100}, {"num_heads", 3}}), "config.json: hidden_size 100 cannot be split"},
      {changed("stdit3", {{"mlp_ratio", -1}}), "config.json: mlp_ratio is -1"},
      {changed("stdit3", {{"mlp_ratio", 1e300}}), "config.json: mlp_ratio is 1e+300"},
      {changed("latte", {{"activation_fn", "geglu"}}), "config.json: norm_type ada_norm_single, activation_fn geglu"},
      {changed("latte", {{"norm_elementwise_affine", true}}), "config.json: norm_type"},
      {changed("latte", {{"cross_attention_dim", nullptr}}), "config.json: norm_type"},
      {changed("latte", {{"caption_channels", nullptr}}), "config.json: norm_type"},
  };
  for (const auto& [text, expected] : all) {
    const std::string message = message_of([&] { parse_config(text, "config.json"); });
    EXPECT_EQ(message.find(expected), 0u) << message << "\n  expected " << expected;
  }
}

TEST(ModelConfig, NumbersThatMakeNoModelAreRefused) {
  const auto refused = [](const std::string& family, const auto& change) {
    ModelConfig c = small(family);
    EXPECT_NO_THROW(check(c));
    change(c);
    return message_of([&] { check(c); });
  };
  using C = ModelConfig;
  const auto expect = [](const std::string& message, const std::string& wanted) {
    EXPECT_EQ(message.find("model: " + wanted), 0u) << message;
    EXPECT_FALSE(message.ends_with("| ")) << "no hint: " << message;
  };
  for (const std::int64_t head_dim : {0, 4, 12, 260, 264}) {
    expect(refused("wan", [&](C& c) { c.head_dim = head_dim; }), fmt::format("head_dim is {}", head_dim));
  }
  expect(refused("wan", [](C& c) { c.heads = 0; }), "2 layers and 0 heads");
  expect(refused("wan", [](C& c) { c.patch = {1, 0, 2}; }), "patch [1, 0, 2]");
  expect(refused("wan", [](C& c) { c.sigma = true; }), "wan has no learned variance");
  expect(refused("wan", [](C& c) { c.heads_without_rope = 3; }), "heads_without_rope 3 of 2 heads");
  expect(refused("wan", [](C& c) { c.channels = 0; }), "channels 0");
  expect(refused("wan", [](C& c) { c.rope_theta = 0; }), "rope_theta is 0");
  expect(refused("latte", [](C& c) { c.patch = {2, 2, 2}; }), "latte cannot have the patch");
  expect(refused("latte", [](C& c) { c.patch = {1, 2, 1}; }), "latte cannot have the patch");
  expect(refused("latte", [](C& c) { c.heads_without_rope = 1; }), "latte has no rotary positions");
  expect(refused("latte", [](C& c) { c.frames = 0; }), "latte without frames");
  expect(refused("stdit3", [](C& c) { c.text_tokens = 0; }), "stdit3 without text_tokens");
  // Nothing in config.json could say so.
  expect(refused("latte", [](C& c) { c.ffn = 40; }), "latte with ffn 40");
  expect(refused("latte", [](C& c) { c.time_width = 128; }), "latte with time_width 128");
  expect(refused("stdit3", [](C& c) { c.time_width = 128; }), "stdit3 with time_width 128");
  expect(refused("stdit3", [](C& c) { c.eps = 1e-5; }), "stdit3 with eps 1e-05");
}

}  // namespace
}  // namespace reel::model
