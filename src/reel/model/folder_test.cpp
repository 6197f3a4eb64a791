#include "reel/model/folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "reel/base/testing.h"
#include "reel/files/file.h"
#include "reel/model/testing.h"

namespace reel::model {
namespace {

using testing::Folder;
using testing::kFamilies;
using testing::random_model;
using testing::small;
using With = tape::Parameters::With;

const std::string kWeights = "diffusion_pytorch_model.safetensors";

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("diffusion_pytorch_model") ||
        entry.path().extension() != ".safetensors") {
      continue;
    }
    const SafetensorsFile file = SafetensorsFile::open(entry.path());
    names.insert(file.names().begin(), file.names().end());
  }
  return names;
}

void expect_same_weights(const Denoiser& a, const Denoiser& b) {
  ASSERT_EQ(a.parameters().all().size(), b.parameters().all().size());
  for (const Parameter& p : a.parameters().all()) {
    SCOPED_TRACE(p.name);
    const Parameter* other = b.parameters().find(p.name);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->shape, p.shape);
    tape::testing::expect_same_bits(p.values(), other->values());
  }
}

// The weights of a model as a file, each tensor under the name that `rename` gives it ("": left out).
using Rename = std::function<std::string(const std::string&)>;
void write_weights(const Denoiser& model, const std::string& path, const Rename& rename, Dtype dtype = Dtype::kF32) {
  SafetensorsWriter writer;
  for (const Parameter& p : model.parameters().all()) {
    if (const std::string name = rename(p.name); !name.empty()) writer.add(name, p.shape, p.values(), dtype);
  }
  writer.write(path);
}

TEST(ModelFolder, WhatIsSavedIsLoadedBitForBit) {
  for (const std::string& family : kFamilies) {
    SCOPED_TRACE(family);
    const Folder folder("save_" + family);
    const auto model = random_model(small(family));
    save_model(*model, folder);
    const auto loaded = load_model(folder, With::kValues);
    expect_same_weights(*model, *loaded);
    EXPECT_EQ(config_json(loaded->config()), config_json(model->config()));
    EXPECT_EQ(SafetensorsFile::open(folder / kWeights).metadata().at("format"), "pt");  // diffusers asks for it
  }
}

// One file, shards, bf16, official names: whatever was read is written under the same names.
TEST(ModelFolder, EveryFixtureIsSavedUnderTheNamesItCameWith) {
  for (const auto& entry : std::filesystem::directory_iterator(testing::kFixtures)) {
    SCOPED_TRACE(entry.path());
    const auto model = load_model(entry.path(), With::kValues);
    const Folder folder("fixture");
    save_model(*model, folder);
    EXPECT_EQ(names_in(folder), names_in(entry.path()));
    EXPECT_EQ(load_config(folder).official_names, load_config(entry.path()).official_names);
    expect_same_weights(*model, *load_model(folder, With::kValues));
  }
}

TEST(ModelFolder, HalfPrecisionIsReadExactly) {
  const auto model = random_model(small("wan"));
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const Folder folder("half");
    write_weights(*model, folder / "half.safetensors", std::identity(), dtype);
    const auto loaded = make_denoiser(model->config(), With::kValues);
    load_weights(*loaded, folder / "half.safetensors");
    const SafetensorsFile file = SafetensorsFile::open(folder / "half.safetensors");
    for (const Parameter& p : loaded->parameters().all()) {
      tape::testing::expect_same_bits(p.values(), file.read_f32(p.name));
    }
    // 8 and 11 bits of mantissa.
    const Parameter &p = model->parameters().all()[0], &q = loaded->parameters().all()[0];
    const double step = dtype == Dtype::kBF16 ? 0x1p-8 : 0x1p-11;
    EXPECT_LE(testing::difference(p.values(), q.values()), step * testing::largest(p.values()));
    EXPECT_GT(testing::difference(p.values(), q.values()), 0);
  }
}

TEST(ModelFolder, WanIsKnownUnderAllItsNames) {
  ModelConfig official = small("wan");
  official.official_names = true;
  const auto diffusers_model = random_model(small("wan")), official_model = random_model(official);
  const auto official_name = [&](const std::string& name) { return file_name_of(official, name); };
  EXPECT_EQ(official_name("scale_shift_table"), "head.modulation");
  EXPECT_EQ(official_name("blocks.1.scale_shift_table"), "blocks.1.modulation");
  EXPECT_EQ(official_name("blocks.0.attn2.to_out.0.bias"), "blocks.0.cross_attn.o.bias");
  EXPECT_EQ(file_name_of(small("wan"), "scale_shift_table"), "scale_shift_table");
  const std::vector<Rename> names = {
      std::identity(), official_name, [](const std::string& name) { return "model.diffusion_model." + name; },
      [&](const std::string& name) { return "model.diffusion_model." + official_name(name); }};
  for (const Denoiser* model : {diffusers_model.get(), official_model.get()}) {
    for (const Rename& rename : names) {
      SCOPED_TRACE(rename("scale_shift_table"));
      const Folder folder("names");
      write_file_atomically(folder / "config.json", config_json(model->config()));
      write_weights(*model, folder / kWeights, rename);
      expect_same_weights(*model, *load_model(folder, With::kValues));
    }
  }
}

TEST(ModelFolder, WhateverDoesNotFitIsListedInOneError) {
  const auto model = random_model(small("wan"));
  const Folder folder("misfit");
  write_file_atomically(folder / "config.json", config_json(model->config()));
  const std::vector<float> numbers(10);
  const std::vector<std::int32_t> integers(16);
  SafetensorsWriter writer;
  for (const Parameter& p : model->parameters().all()) {
    if (p.name == "proj_out.bias") continue;
    if (p.name == "blocks.1.attn1.norm_q.weight") {
      writer.add(p.name, {2, 5}, numbers);
    } else if (p.name == "blocks.1.attn1.norm_k.weight") {
      writer.add(p.name, p.shape, integers);
    } else {
      writer.add(p.name, p.shape, p.values());
    }
  }
  writer.add("blocks.0.lora", {10}, numbers);
  writer.add("model.diffusion_model.patch_embedding.bias", {10}, numbers);
  writer.write(folder / kWeights);
  // A ghost complains as a real model does.
  for (const With with : {With::kValues, With::kGhost}) {
    const std::string message = message_of([&] { load_model(folder, with); });
    EXPECT_EQ(message.find(std::string(folder) + ": 5 tensors do not fit the model | "), 0u) << message;
    for (const char* each : {"proj_out.bias is missing", "blocks.1.attn1.norm_q.weight is [2, 5], should be [16]",
                             "blocks.1.attn1.norm_k.weight is I32, should be of floats",
                             "blocks.0.lora is not part of this model", "patch_embedding.bias is there twice"}) {
      EXPECT_NE(message.find(each), std::string::npos) << message << "\n  expected " << each;
    }
  }
}

TEST(ModelFolder, ALongListOfMisfitsIsCut) {
  const auto model = random_model(small("wan"));
  const Folder folder("nothing");
  write_file_atomically(folder / "config.json", config_json(model->config()));
  write_weights(*model, folder / kWeights, [](const std::string& name) { return name.starts_with("b") ? "" : name; });
  const std::string message = message_of([&] { load_model(folder, With::kGhost); });
  EXPECT_NE(message.find("54 tensors do not fit"), std::string::npos) << message;
  EXPECT_NE(message.find("... and 42 more"), std::string::npos) << message;
}

TEST(ModelFolder, WhatFollowsFromTheConfigurationMayBeAbsent) {
  ModelConfig c = small("stdit3");
  const auto model = random_model(c);
  const Folder folder("absent");
  write_file_atomically(folder / "config.json", config_json(c));
  write_weights(*model, folder / kWeights, [](const std::string& name) {
    return name == "rope.freqs" || name == "y_embedder.y_embedding" ? "" : name;
  });
  const auto loaded = load_model(folder, With::kValues);
  const std::span<const float> frequencies = loaded->parameters().find("rope.freqs")->values();
  ASSERT_EQ(frequencies.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(frequencies[i], std::pow(10.0f, -static_cast<float>(i)));
}

// Open-Sora's class is one of transformers, which calls its files otherwise and names the class in a list.
TEST(ModelFolder, Stdit3IsReadAsTransformersWritesIt) {
  const auto model = random_model(small("stdit3"));
  const Folder folder("transformers");
  auto json = nlohmann::json::parse(config_json(model->config()));
  json.erase("_class_name");
  json["architectures"] = {"STDiT3"};
  json["model_type"] = "STDiT3";
  write_file_atomically(folder / "config.json", json.dump());
  write_weights(*model, folder / "model.safetensors", std::identity());
  expect_same_weights(*model, *load_model(folder, With::kValues));
  std::filesystem::rename(folder / "model.safetensors", folder / "a.safetensors");
  nlohmann::json index;
  for (const Parameter& p : model->parameters().all()) index["weight_map"][p.name] = "a.safetensors";
  write_file_atomically(folder / "model.safetensors.index.json", index.dump());
  expect_same_weights(*model, *load_model(folder, With::kValues));
  json["architectures"] = "STDiT3";
  EXPECT_NE(message_of([&] { parse_config(json.dump(), "config.json"); }).find("architectures must be one name"),
            std::string::npos);
}

TEST(ModelFolder, FoldersThatAreNoModelSayWhy) {
  const auto message = [](const std::string& folder) { return message_of([&] { load_model(folder, With::kGhost); }); };
  const auto expect = [&](const std::string& folder, const std::string& wanted) {
    EXPECT_NE(message(folder).find(wanted), std::string::npos) << message(folder) << "\n  expected " << wanted;
  };
  const Folder folder("none");
  expect(folder / "elsewhere", "no config.json");
  expect(folder, "no config.json");
  const auto model = random_model(small("latte"));
  write_file_atomically(folder / "config.json", config_json(model->config()));
  expect(folder, "no weights");
  const std::string index = folder / (kWeights + ".index.json");
  write_file_atomically(index, "shards");
  expect(folder, "not an index of shards");
  write_file_atomically(index, R"({"metadata": {}})");
  expect(folder, "not an index of shards");
  write_file_atomically(index, R"({"weight_map": {"a": 3}})");
  expect(folder, "not an index of shards");
  write_file_atomically(index, R"({"weight_map": {"a": "../a.safetensors"}})");
  expect(folder, "shard '../a.safetensors'");
  write_file_atomically(index, R"({"weight_map": {"a": "a.safetensors"}})");
  expect(folder, "a.safetensors");
  write_file_atomically(folder / "a.safetensors", "no tensors");
  expect(folder, "a.safetensors");
}

TEST(ModelFolder, APrefixNamesOneModelOfSeveralInAFile) {
  const auto model = random_model(small("latte"));
  const Folder folder("prefix");
  SafetensorsWriter writer;
  const std::vector<float> other = {1};
  writer.add("step", {1}, other);
  for (const Parameter& p : model->parameters().all()) writer.add("ema." + p.name, p.shape, p.values());
  writer.write(folder / "ema.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(folder / "ema.safetensors");
  const auto loaded = make_denoiser(model->config(), With::kValues);
  load_weights(loaded->parameters(), file, "ema.");
  expect_same_weights(*model, *loaded);
  ModelConfig shallow = small("latte");
  shallow.layers = 1;
  const auto smaller = make_denoiser(shallow, With::kValues);
  const std::string message = message_of([&] { load_weights(smaller->parameters(), file, "ema."); });
  EXPECT_NE(message.find("34 tensors do not fit"), std::string::npos) << message;
  EXPECT_NE(message.find("ema.transformer_blocks.1.attn1.to_q.weight is not part"), std::string::npos) << message;
  EXPECT_NE(message_of([&] { load_weights(loaded->parameters(), file, "average."); }).find("is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace reel::model
