// Wan's config.json, in diffusers' form and in its own, and its names of tensors.
#include "reel/model/config_reader.h"
#include "reel/model/family.h"
#include "reel/model/wan.h"

namespace reel::model {

namespace {

void read_wan(const ConfigReader& r, ModelConfig& c) {
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

void read_official_wan(const ConfigReader& r, ModelConfig& c) {
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

// Wan's own names, by pieces of diffusers' ones; the first that fits is replaced.
constexpr std::pair<const char*, const char*> kOfficialWan[] = {
    {"condition_embedder.text_embedder.linear_1.", "text_embedding.0."},
    {"condition_embedder.text_embedder.linear_2.", "text_embedding.2."},
    {"condition_embedder.time_embedder.linear_1.", "time_embedding.0."},
    {"condition_embedder.time_embedder.linear_2.", "time_embedding.2."},
    {"condition_embedder.time_proj.", "time_projection.1."},
    {"proj_out.", "head.head."},
    {".attn1.to_q.", ".self_attn.q."},
    {".attn1.to_k.", ".self_attn.k."},
    {".attn1.to_v.", ".self_attn.v."},
    {".attn1.to_out.0.", ".self_attn.o."},
    {".attn1.norm_", ".self_attn.norm_"},
    {".attn2.to_q.", ".cross_attn.q."},
    {".attn2.to_k.", ".cross_attn.k."},
    {".attn2.to_v.", ".cross_attn.v."},
    {".attn2.to_out.0.", ".cross_attn.o."},
    {".attn2.norm_", ".cross_attn.norm_"},
    {".norm2.", ".norm3."},
    {".ffn.net.0.proj.", ".ffn.0."},
    {".ffn.net.2.", ".ffn.2."},
    {".scale_shift_table", ".modulation"},
};

std::string official_wan_name(const std::string& name) {
  if (name == "scale_shift_table") return "head.modulation";
  for (const auto& [ours, theirs] : kOfficialWan) {
    if (const std::size_t at = name.find(ours); at != std::string::npos) {
      return name.substr(0, at) + theirs + name.substr(at + std::string(ours).size());
    }
  }
  return name;
}

nlohmann::ordered_json wan_json(const ModelConfig& c) {
  if (c.official_names) {
    return {{"_class_name", "WanModel"},
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
  }
  return {{"_class_name", "WanTransformer3DModel"},
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
}

void check_wan(const ModelConfig& c) {
  if (c.sigma) refuse("wan has no learned variance", "remove model.sigma");
}

}  // namespace

const Family& wan_family() {
  static const Family family = {
      .name = "wan",
      .classes = {{"WanTransformer3DModel", read_wan}, {"WanModel", read_official_wan}},
      .config_json = wan_json,
      .check = check_wan,
      .make = [](const ModelConfig& c) -> std::unique_ptr<Denoiser> { return std::make_unique<Wan>(c); },
      .official_name = official_wan_name,
      .full_attention = true,
  };
  return family;
}

}  // namespace reel::model
