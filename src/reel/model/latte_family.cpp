// Latte's config.json, as diffusers writes it.
#include "reel/model/config_reader.h"
#include "reel/model/family.h"
#include "reel/model/latte.h"

namespace reel::model {

namespace {

void read_latte(const ConfigReader& r, ModelConfig& c) {
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

nlohmann::ordered_json latte_json(const ModelConfig& c) {
  return {{"_class_name", "LatteTransformer3DModel"},
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
}

void check_latte(const ModelConfig& c) {
  if (c.patch[0] != 1 || c.patch[1] != c.patch[2]) {
    refuse(fmt::format("latte cannot have the patch [{}]", fmt::join(c.patch, ", ")), "use [1, p, p]");
  }
  if (c.inner() != 4 * c.width()) {
    refuse(fmt::format("latte with ffn {}", c.ffn), "its config.json cannot say so: use 0, which is 4 times the width");
  }
  if (c.heads_without_rope != 0) refuse("latte has no rotary positions", "remove heads_without_rope");
  if (c.frames < 1) refuse("latte without frames", "say how many frames a clip has");
}

}  // namespace

const Family& latte_family() {
  static const Family family = {
      .name = "latte",
      .classes = {{"LatteTransformer3DModel", read_latte}},
      .config_json = latte_json,
      .check = check_latte,
      .make = [](const ModelConfig& c) -> std::unique_ptr<Denoiser> { return std::make_unique<Latte>(c); },
      .knows_length = true,
      .takes_text_mask = true,
      .ddpm = true,
  };
  return family;
}

}  // namespace reel::model
