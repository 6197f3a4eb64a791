#include "reel/model/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reel/base/error.h"
#include "reel/model/config_reader.h"
#include "reel/model/family.h"

namespace reel::model {

using Json = nlohmann::ordered_json;

void visit(Settings& s, ModelConfig& c) {
  s.section("model", "the transformer");
  std::vector<std::string> names;
  for (const Family* family : families()) names.push_back(family->name);
  s.choice("model.family", c.family, names, "architecture: full 3-D, or spatial and temporal attention");
  s.integer("model.layers", c.layers, 1, 1000, "blocks; stdit3, latte: pairs of a spatial and a temporal one");
  s.integer("model.heads", c.heads, 1, 1000, "attention heads; width = heads * head_dim");
  s.integer("model.head_dim", c.head_dim, 8, 256, "numbers per head, a multiple of 8");
  s.integer("model.ffn", c.ffn, 0, kMost, "inner width of the feed-forward; 0: 4 times the width");
  s.integers("model.patch", c.patch, 3, "frames, rows and columns of a token");
  s.integer("model.channels", c.channels, 0, 100000, "channels of the data; 0: as the data has");
  s.boolean("model.sigma", c.sigma, "stdit3, latte: learned variance, twice the channels out");
  s.integer("model.text_width", c.text_width, 0, kMost, "width of text embeddings; 0: as the data has");
  s.integer("model.text_tokens", c.text_tokens, 0, kMost, "stdit3: the longest text; 0: as the data has");
  s.boolean("model.qk_norm", c.qk_norm, "stdit3: RMS norm of q and k");
  s.boolean("model.cross_norm", c.cross_norm, "wan: layer norm before cross-attention");
  s.boolean("model.attention_bias", c.attention_bias, "latte: q, k and v have biases");
  s.integer("model.time_width", c.time_width, 2, 1 << 16, "sinusoidal embedding of the timestep");
  s.number("model.eps", c.eps, 0, 1, "of the norms");
  s.integer("model.base_pixels", c.base_pixels, 1, kMost, "stdit3: frame size at which positions are unscaled");
  s.integer("model.base_latents", c.base_latents, 1, kMost, "latte: the same, in latents");
  s.number("model.rope_theta", c.rope_theta, 1, 1e9,
           "base of the rotary frequencies; small models learn faster with 100");
  s.integer("model.heads_without_rope", c.heads_without_rope, 0, 1000,
            "the last n heads see content only, no positions");
  s.choice("model.init", c.init, {"standard", "mimetic"},
           "mimetic: W_k = W_q and a shared bias, so that small models learn structured attention in minutes");
  s.number("model.qk_gain", c.qk_gain, 0, 100, "initial weight of the norms of q and k (mimetic: try 1.5)");
  s.number("model.gate_bias", c.gate_bias, -10, 10, "added to the initial gates (mimetic: try 0.5)");
  s.integer("model.seed", c.seed, 0, Settings::kMany, "of the initial weights");
}

void check(const ModelConfig& c) {
  const Family& family = family_of(c);
  if (c.layers < 1 || c.layers > 1000 || c.heads < 1 || c.heads > 1000) {
    refuse(fmt::format("{} layers and {} heads", c.layers, c.heads), "use 1 to 1000 of each");
  }
  if (c.head_dim < 8 || c.head_dim > 256 || c.head_dim % 8 != 0) {
    refuse(fmt::format("head_dim is {}", c.head_dim), "use a multiple of 8 up to 256");
  }
  for (const std::int64_t extent : c.patch) {
    if (extent < 1 || extent > 1000) {
      refuse(fmt::format("patch [{}]", fmt::join(c.patch, ", ")), "use 1 to 1000 for each extent");
    }
  }
  if (!family.full_attention && c.width() % 4 != 0) {
    refuse(fmt::format("width {} with 2-D positions", c.width()), "heads * head_dim must be a multiple of 4");
  }
  if (c.time_width % 2 != 0) refuse(fmt::format("time_width {} is odd", c.time_width), "use an even number");
  if (!(c.eps >= 0 && c.eps <= 1)) refuse(fmt::format("eps is {}", c.eps), "use a number from 0 to 1, as 1e-6");
  if (!(c.rope_theta >= 1)) refuse(fmt::format("rope_theta is {}", c.rope_theta), "use 1 or more, as 10000");
  // What config.json has no word for would be lost in the first checkpoint.
  if (!family.full_attention && c.time_width != 256) {
    refuse(fmt::format("{} with time_width {}", c.family, c.time_width), "its config.json cannot say so: use 256");
  }
  if (c.heads_without_rope > c.heads) {
    refuse(fmt::format("heads_without_rope {} of {} heads", c.heads_without_rope, c.heads), "use at most model.heads");
  }
  if (c.channels < 1 || c.text_width < 1) {
    refuse(fmt::format("channels {} and text_width {}", c.channels, c.text_width), "both must be known and at least 1");
  }
  family.check(c);
}

ModelConfig parse_config(const std::string& text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{}: not JSON: {}", file, error.what()), "");
  }
  if (!json.is_object()) throw Error(fmt::format("{}: not a JSON object", file), "");
  const ConfigReader reader(json, file);
  ModelConfig c;
  const std::string name = reader.class_name();
  std::vector<std::string> known;
  const ConfigClass* found = nullptr;
  for (const Family* family : families()) {
    for (const ConfigClass& each : family->classes) {
      known.push_back(each.name);
      if (each.name != name) continue;
      found = &each;
      c.family = family->name;
    }
  }
  if (found == nullptr) {
    throw Error(fmt::format("{}: _class_name is '{}'", file, name),
                fmt::format("known are {}", fmt::join(known, ", ")));
  }
  found->read(reader, c);
  c.rope_theta = reader.number("reel_rope_theta", 10000);
  c.heads_without_rope = reader.integer("reel_heads_without_rope", 0);
  try {
    check(c);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, error.what()), error.hint());
  }
  return c;
}

std::string config_json(const ModelConfig& c) {
  Json json = family_of(c).config_json(c);
  if (c.rope_theta != 10000) json["reel_rope_theta"] = c.rope_theta;
  if (c.heads_without_rope != 0) json["reel_heads_without_rope"] = c.heads_without_rope;
  return json.dump(2) + "\n";
}

}  // namespace reel::model
