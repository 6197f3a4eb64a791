// The run files in configs/ that describe published models: they have as many parameters as was published.
#include <gtest/gtest.h>

#include "reel/model/testing.h"

namespace reel::model {
namespace {

using tape::Parameters;

ModelConfig model_of(const std::string& file) {
  const Toml toml = Toml::load(REEL_SOURCE_DIR "/configs/" + file);
  Settings settings(toml);
  ModelConfig config;
  visit(settings, config);
  config.frames = toml.integer("video.frames");  // latte's positions; train does the same
  return config;
}

std::int64_t parameters_of(const std::string& file) {
  const auto model = make_denoiser(model_of(file), Parameters::With::kGhost);
  // What stands for no text is a buffer of STDiT3's, and no count includes it.
  const Parameter* buffer = model->parameters().find("y_embedder.y_embedding");
  return model->parameters().count() - (buffer == nullptr ? 0 : buffer->size());
}

TEST(Configs, HaveThePublishedNumberOfParameters) {
  // Counted over the tensors of the published files.
  EXPECT_EQ(parameters_of("wan-1.3b.toml"), 1'418'996'800);
  EXPECT_EQ(parameters_of("wan-14b.toml"), 14'288'491'584);
  EXPECT_EQ(parameters_of("stdit3-xl.toml"), 1'207'643'972);
  EXPECT_EQ(parameters_of("stdit3-3b.toml"), 3'182'211'572);
  EXPECT_EQ(parameters_of("latte-xl.toml"), 1'057'246'880);
  // DSV publishes layers, heads and rounded totals: 0.8, 2.7 and 30 billion, the last of which its sizes do not give.
  EXPECT_EQ(parameters_of("dsv-0.8b.toml"), 756'127'888);
  EXPECT_EQ(parameters_of("dsv-2.7b.toml"), 2'728'552'464);
  EXPECT_EQ(parameters_of("dsv-30b.toml"), 25'702'090'768);
}

TEST(Configs, AreThePublishedModelsInTheirOwnWords) {
  const auto expect = [](const std::string& file, const std::string& json) {
    SCOPED_TRACE(file);
    const ModelConfig ours = model_of(file), theirs = parse_config(json, "config.json");
    EXPECT_EQ(config_json(ours), config_json(theirs));
  };
  expect("wan-1.3b.toml", R"({"_class_name": "WanTransformer3DModel", "num_attention_heads": 12, "num_layers": 30,
                              "ffn_dim": 8960})");
  expect("wan-14b.toml", R"({"_class_name": "WanTransformer3DModel"})");
  expect("stdit3-xl.toml", R"({"_class_name": "STDiT3"})");
  expect("stdit3-3b.toml", R"({"_class_name": "STDiT3", "hidden_size": 1872, "num_heads": 26})");
  expect("latte-xl.toml", R"({"_class_name": "LatteTransformer3DModel", "attention_head_dim": 72, "in_channels": 4,
                              "out_channels": 8, "num_layers": 28, "cross_attention_dim": 1152, "attention_bias": true,
                              "patch_size": 2, "activation_fn": "gelu-approximate", "norm_type": "ada_norm_single",
                              "norm_elementwise_affine": false, "norm_eps": 1e-6, "caption_channels": 4096})");
}

}  // namespace
}  // namespace reel::model
