// What a model is made of: the same few numbers for every family, as keys of a run file and as a diffusers config.json.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reel/files/settings.h"

namespace reel::model {

struct ModelConfig {
  // One of family.h. "wan": full 3-D attention, text cross-attention (Wan 2.1; DSV's models). "stdit3": spatial and
  // temporal blocks (Open-Sora 1.2). "latte": the same idea with text in the spatial blocks only (diffusers' Latte).
  std::string family = "wan";
  std::int64_t layers = 8;  // stdit3, latte: pairs of a spatial and a temporal block
  std::int64_t heads = 6;
  std::int64_t head_dim = 64;
  std::int64_t ffn = 0;       // 0: 4 times the width
  std::int64_t channels = 0;  // of the data; 0: as the data has
  bool sigma = false;         // stdit3, latte: twice the channels out, the second half is the learned variance
  std::int64_t out = 0;       // channels out where they are neither as in nor twice that; files only
  std::vector<std::int64_t> patch = {1, 2, 2};
  std::int64_t text_width = 0;    // 0: as the data has
  std::int64_t text_tokens = 0;   // stdit3: the longest text; wan under its official names: texts are padded to it
  bool qk_norm = true;            // stdit3
  bool cross_norm = true;         // wan
  bool attention_bias = true;     // latte
  std::int64_t time_width = 256;  // of the sinusoidal embedding of the timestep
  double eps = 1e-6;
  std::int64_t base_pixels = 512;  // stdit3: size at which positions are unscaled
  std::int64_t base_latents = 64;  // latte: the same, in latents
  std::int64_t frames = 0;         // latte: must be the length of the clips; 0: as the data has
  double rope_theta = 10000;
  std::int64_t heads_without_rope = 0;  // the last n heads see no positions

  std::string init = "standard";
  double qk_gain = 1;    // initial weight of the norms of q and k
  double gate_bias = 0;  // added to the initial gates
  std::int64_t seed = 0;

  bool official_names = false;  // wan: tensors are named as in Wan's own files, not as in diffusers

  std::int64_t width() const { return heads * head_dim; }
  std::int64_t inner() const { return ffn > 0 ? ffn : 4 * width(); }
  std::int64_t out_channels() const { return out > 0 ? out : sigma ? 2 * channels : channels; }
  std::array<std::int64_t, 3> patch_size() const { return {patch[0], patch[1], patch[2]}; }
  std::int64_t patch_volume() const { return patch[0] * patch[1] * patch[2]; }
};

void visit(Settings& settings, ModelConfig& config);

// Error where the numbers do not make a model: what, and which values would do.
void check(const ModelConfig& config);

// config.json of a diffusers-style folder; `_class_name` or `architectures` name the family. An Error names
// `file` and the key.
ModelConfig parse_config(const std::string& json, const std::string& file);
std::string config_json(const ModelConfig& config);

}  // namespace reel::model
