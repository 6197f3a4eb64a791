#include "reel/model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "reel/base/error.h"

namespace reel::model {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMost = 1 << 20;  // of anything in a model; products of a few such numbers still fit 64 bits

// Reads keys of a config.json with the defaults of the class that wrote it.
class Reader {
 public:
  Reader(const Json& json, const std::string& file) : json_(json), file_(file) {}

  bool named(const char* key) const { return json_.contains(key); }  // also as null
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  std::int64_t integer(const char* key, std::int64_t fallback) const {
    if (!has(key)) return fallback;
    return checked(key, json_[key], "an integer from 1 to 1048576");
  }
  double number(const char* key, double fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_number()) fail(key, "a number");
    return json_[key].get<double>();
  }
  bool boolean(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_boolean()) fail(key, "true or false");
    return json_[key].get<bool>();
  }
  std::string string(const char* key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_string()) fail(key, "a string");
    return json_[key].get<std::string>();
  }
  // Classes of diffusers write _class_name, those of transformers (STDiT3) a list.
  std::string class_name() const {
    const char* list = "architectures";
    if (has("_class_name") || !has(list)) return string("_class_name", "");
    if (!json_[list].is_array() || json_[list].size() != 1 || !json_[list][0].is_string()) fail(list, "one name");
    return json_[list][0].get<std::string>();
  }
  std::vector<std::int64_t> patch(const char* key) const {
    if (!has(key)) return {1, 2, 2};
    const Json& value = json_[key];
    const char* wanted = "three integers from 1 to 1048576";
    if (value.is_number_integer()) return {1, checked(key, value, wanted), checked(key, value, wanted)};
    if (!value.is_array() || value.size() != 3) fail(key, wanted);
    std::vector<std::int64_t> patch;
    for (const Json& each : value) patch.push_back(checked(key, each, wanted));
    return patch;
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(fmt::format("{}: {}", file_, what), hint);
  }

 private:
  [[noreturn]] void fail(const char* key, const char* wanted) const {
    refuse(fmt::format("{} must be {}, found {}", key, wanted, json_[key].dump()),
           "compare with a config.json that works");
  }
  std::int64_t checked(const char* key, const Json& value, const char* wanted) const {
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : 0;
    if (number < 1 || number > kMost) fail(key, wanted);
    return number;
  }
  const Json& json_;
  const std::string& file_;
};

void read_wan(const Reader& r, ModelConfig& c) {
  if (r.has("image_dim") || r.has("added_kv_proj_dim")) {
    r.refuse("an image-to-video model (image_dim, added_kv_proj_dim)", "the text-to-video models of the family work");
  }
  c.heads = r.integer("num_attention_heads", 40);
  c.head_dim = r.integer("attention_head_dim", 128);
  c.channels = r.integer("in_channels", 16);
  c.out = r.integer("out_channels", r.named("out_channels") ? c.channels : 16);  // null: as many as come in
  c.text_width = r.integer("text_dim", 4096);
  c.time_width = r.integer("freq_dim", 256);
  c.ffn = r.integer("ffn_dim", 13824);
  c.layers = r.integer("num_layers", 40);
  c.cross_norm = r.boolean("cross_attn_norm", true);
  c.eps = r.number("eps", 1e-6);
  c.patch = r.patch("patch_size");
}

void read_official_wan(const Reader& r, ModelConfig& c) {
  if (const std::string type = r.string("model_type", "t2v"); type != "t2v") {
    r.refuse(fmt::format("model_type is {}", type), "the text-to-video models of the family work");
  }
  const std::int64_t width = r.integer("dim", 2048);
  c.heads = r.integer("num_heads", 16);
  if (c.heads < 1 || width % c.heads != 0) {
    r.refuse(fmt::format("dim {} cannot be split into {} heads", width, c.heads),
             "dim must be a multiple of num_heads");
  }
  c.head_dim = width / c.heads;
  c.channels = r.integer("in_dim", 16);
  c.out = r.integer("out_dim", 16);
  c.text_width = r.integer("text_dim", 4096);
  c.text_tokens = r.integer("text_len", 512);
  c.time_width = r.integer("freq_dim", 256);
  c.ffn = r.integer("ffn_dim", 8192);
  c.layers = r.integer("num_layers", 32);
  c.cross_norm = r.boolean("cross_attn_norm", true);
  if (!r.boolean("qk_norm", true)) r.refuse("qk_norm is false", "every published Wan model has it");
  c.eps = r.number("eps", 1e-6);
  c.patch = r.patch("patch_size");
  c.official_names = true;
}

void read_latte(const Reader& r, ModelConfig& c) {
  c.heads = r.integer("num_attention_heads", 16);
  c.head_dim = r.integer("attention_head_dim", 88);
  c.channels = r.integer("in_channels", 4);
  c.out = r.integer("out_channels", c.channels);
  c.sigma = c.out == 2 * c.channels;
  c.layers = r.integer("num_layers", 1);
  c.attention_bias = r.boolean("attention_bias", false);
  c.base_latents = r.integer("sample_size", 64);
  c.patch = r.patch("patch_size");
  c.frames = r.integer("video_length", 16);
  c.text_width = r.integer("caption_channels", 0);
  c.eps = r.number("norm_eps", 1e-5);
  c.time_width = 256;
  const std::string norm = r.string("norm_type", "layer_norm"), act = r.string("activation_fn", "geglu");
  const std::int64_t cross = r.integer("cross_attention_dim", 0);
  if (norm != "ada_norm_single" || act != "gelu-approximate" || r.boolean("norm_elementwise_affine", true) ||
      cross != c.width() || c.text_width == 0) {
    r.refuse(
        fmt::format("norm_type {}, activation_fn {}, cross_attention_dim {}, caption_channels {}", norm, act, cross,
                    c.text_width),
        "as in Latte-1: ada_norm_single without affine norms, gelu-approximate, cross_attention_dim = width, captions");
  }
}

void read_stdit3(const Reader& r, ModelConfig& c) {
  const std::int64_t width = r.integer("hidden_size", 1152);
  c.heads = r.integer("num_heads", 16);
  if (c.heads < 1 || width % c.heads != 0) {
    r.refuse(fmt::format("hidden_size {} cannot be split into {} heads", width, c.heads),
             "hidden_size must be a multiple of num_heads");
  }
  c.head_dim = width / c.heads;
  c.layers = r.integer("depth", 28);
  const double ratio = r.number("mlp_ratio", 4.0), inner = static_cast<double>(width) * ratio;
  if (!(inner >= 1 && inner <= static_cast<double>(kMost))) {
    r.refuse(fmt::format("mlp_ratio is {}", ratio), "hidden_size * mlp_ratio must be a number from 1 to 1048576");
  }
  c.ffn = static_cast<std::int64_t>(inner);
  c.channels = r.integer("in_channels", 4);
  c.sigma = r.boolean("pred_sigma", true);
  c.patch = r.patch("patch_size");
  c.text_width = r.integer("caption_channels", 4096);
  c.text_tokens = r.integer("model_max_length", 300);
  c.qk_norm = r.boolean("qk_norm", true);
  c.base_pixels = r.integer("input_sq_size", 512);
}

// The class takes floor(width * ratio), and a quotient that was rounded down gives one less than was divided.
double mlp_ratio(std::int64_t inner, std::int64_t width) {
  const double ratio = static_cast<double>(inner) / static_cast<double>(width);
  const bool falls_short = std::floor(static_cast<double>(width) * ratio) < static_cast<double>(inner);
  return falls_short ? std::nextafter(ratio, std::numeric_limits<double>::infinity()) : ratio;
}

}  // namespace

void visit(Settings& s, ModelConfig& c) {
  s.section("model", "the transformer");
  s.choice("model.family", c.family, {"wan", "stdit3", "latte"},
           "architecture: full 3-D, or spatial and temporal attention");
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
  const auto refuse = [](const std::string& what, const std::string& hint) { throw Error("model: " + what, hint); };
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
  if (c.family == "latte" && (c.patch[0] != 1 || c.patch[1] != c.patch[2])) {
    refuse(fmt::format("latte cannot have the patch [{}]", fmt::join(c.patch, ", ")), "use [1, p, p]");
  }
  if (c.family != "wan" && c.width() % 4 != 0) {
    refuse(fmt::format("width {} with 2-D positions", c.width()), "heads * head_dim must be a multiple of 4");
  }
  if (c.time_width % 2 != 0) refuse(fmt::format("time_width {} is odd", c.time_width), "use an even number");
  if (!(c.eps >= 0 && c.eps <= 1)) refuse(fmt::format("eps is {}", c.eps), "use a number from 0 to 1, as 1e-6");
  if (!(c.rope_theta >= 1)) refuse(fmt::format("rope_theta is {}", c.rope_theta), "use 1 or more, as 10000");
  // What config.json has no word for would be lost in the first checkpoint.
  if (c.family != "wan" && c.time_width != 256) {
    refuse(fmt::format("{} with time_width {}", c.family, c.time_width), "its config.json cannot say so: use 256");
  }
  if (c.family == "stdit3" && c.eps != 1e-6) {
    refuse(fmt::format("stdit3 with eps {}", c.eps), "its config.json cannot say so: use 1e-6");
  }
  if (c.family == "latte" && c.inner() != 4 * c.width()) {
    refuse(fmt::format("latte with ffn {}", c.ffn), "its config.json cannot say so: use 0, which is 4 times the width");
  }
  if (c.family == "wan" && c.sigma) refuse("wan has no learned variance", "remove model.sigma");
  if (c.family == "latte" && c.heads_without_rope != 0)
    refuse("latte has no rotary positions", "remove heads_without_rope");
  if (c.heads_without_rope > c.heads) {
    refuse(fmt::format("heads_without_rope {} of {} heads", c.heads_without_rope, c.heads), "use at most model.heads");
  }
  if (c.channels < 1 || c.text_width < 1) {
    refuse(fmt::format("channels {} and text_width {}", c.channels, c.text_width), "both must be known and at least 1");
  }
  if (c.family == "stdit3" && c.text_tokens < 1) refuse("stdit3 without text_tokens", "say how long texts may be");
  if (c.family == "latte" && c.frames < 1) refuse("latte without frames", "say how many frames a clip has");
}

ModelConfig parse_config(const std::string& text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{}: not JSON: {}", file, error.what()), "");
  }
  if (!json.is_object()) throw Error(fmt::format("{}: not a JSON object", file), "");
  const Reader reader(json, file);
  ModelConfig c;
  const std::string name = reader.class_name();
  if (name == "WanTransformer3DModel") {
    c.family = "wan";
    read_wan(reader, c);
  } else if (name == "WanModel") {
    c.family = "wan";
    read_official_wan(reader, c);
  } else if (name == "LatteTransformer3DModel") {
    c.family = "latte";
    read_latte(reader, c);
  } else if (name == "STDiT3") {
    c.family = "stdit3";
    read_stdit3(reader, c);
  } else {
    throw Error(fmt::format("{}: _class_name is '{}'", file, name),
                "known are WanTransformer3DModel, WanModel, LatteTransformer3DModel, STDiT3");
  }
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
  Json json;
  if (c.family == "wan" && c.official_names) {
    json = {{"_class_name", "WanModel"},
            {"model_type", "t2v"},
            {"dim", c.width()},
            {"ffn_dim", c.inner()},
            {"freq_dim", c.time_width},
            {"in_dim", c.channels},
            {"out_dim", c.out_channels()},
            {"num_heads", c.heads},
            {"num_layers", c.layers},
            {"text_len", c.text_tokens},
            {"text_dim", c.text_width},
            {"eps", c.eps},
            {"patch_size", c.patch},
            {"cross_attn_norm", c.cross_norm},
            {"qk_norm", true}};
  } else if (c.family == "wan") {
    json = {{"_class_name", "WanTransformer3DModel"},
            {"patch_size", c.patch},
            {"num_attention_heads", c.heads},
            {"attention_head_dim", c.head_dim},
            {"in_channels", c.channels},
            {"out_channels", c.out_channels()},
            {"text_dim", c.text_width},
            {"freq_dim", c.time_width},
            {"ffn_dim", c.inner()},
            {"num_layers", c.layers},
            {"cross_attn_norm", c.cross_norm},
            {"qk_norm", "rms_norm_across_heads"},
            {"eps", c.eps}};
  } else if (c.family == "latte") {
    json = {{"_class_name", "LatteTransformer3DModel"},
            {"num_attention_heads", c.heads},
            {"attention_head_dim", c.head_dim},
            {"in_channels", c.channels},
            {"out_channels", c.out_channels()},
            {"num_layers", c.layers},
            {"cross_attention_dim", c.width()},
            {"attention_bias", c.attention_bias},
            {"sample_size", c.base_latents},
            {"patch_size", c.patch[1]},
            {"activation_fn", "gelu-approximate"},
            {"norm_type", "ada_norm_single"},
            {"norm_elementwise_affine", false},
            {"norm_eps", c.eps},
            {"caption_channels", c.text_width},
            {"video_length", c.frames},
            {"num_embeds_ada_norm", 1000}};
  } else {
    json = {{"_class_name", "STDiT3"},
            {"input_sq_size", c.base_pixels},
            {"in_channels", c.channels},
            {"patch_size", c.patch},
            {"hidden_size", c.width()},
            {"depth", c.layers},
            {"num_heads", c.heads},
            {"mlp_ratio", mlp_ratio(c.inner(), c.width())},
            {"pred_sigma", c.sigma},
            {"caption_channels", c.text_width},
            {"model_max_length", c.text_tokens},
            {"qk_norm", c.qk_norm}};
  }
  if (c.rope_theta != 10000) json["reel_rope_theta"] = c.rope_theta;
  if (c.heads_without_rope != 0) json["reel_heads_without_rope"] = c.heads_without_rope;
  return json.dump(2) + "\n";
}

}  // namespace reel::model
