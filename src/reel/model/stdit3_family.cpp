// STDiT3's config.json, as Open-Sora writes it with transformers.
#include <cmath>
#include <limits>

#include "reel/model/config_reader.h"
#include "reel/model/family.h"
#include "reel/model/stdit3.h"

namespace reel::model {

namespace {

void read_stdit3(const ConfigReader& r, ModelConfig& c) {
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

nlohmann::ordered_json stdit3_json(const ModelConfig& c) {
  return {{"_class_name", "STDiT3"},
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

void check_stdit3(const ModelConfig& c) {
  if (c.eps != 1e-6) refuse(fmt::format("stdit3 with eps {}", c.eps), "its config.json cannot say so: use 1e-6");
  if (c.text_tokens < 1) refuse("stdit3 without text_tokens", "say how long texts may be");
}

}  // namespace

const Family& stdit3_family() {
  static const Family family = {
      .name = "stdit3",
      .classes = {{"STDiT3", read_stdit3}},
      .config_json = stdit3_json,
      .check = check_stdit3,
      .make = [](const ModelConfig& c) -> std::unique_ptr<Denoiser> { return std::make_unique<Stdit3>(c); },
      .pads = true,
      .wants_size = true,
      .takes_text_mask = true,
      .data_minus_noise = true,
  };
  return family;
}

}  // namespace reel::model
