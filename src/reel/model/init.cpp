#include "reel/model/init.h"

#include <algorithm>
#include <cmath>

#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::model {

namespace {

std::uint64_t stream_of(const std::string& name) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

bool contains(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

class Initialiser {
 public:
  explicit Initialiser(Denoiser& model) : model_(model), c_(model.config()) {}

  void run() {
    for (Parameter& p : model_.parameters().all()) fill(p);
    if (c_.init == "mimetic") {
      for (Parameter& p : model_.parameters().all()) tie_keys(p);
    }
  }

 private:
  Random random(const Parameter& p) const { return Random(static_cast<std::uint64_t>(c_.seed), stream_of(p.name)); }

  void normal(Parameter& p, float deviation) const {
    random(p).fill_normal(p.values());
    for (float& value : p.values()) value *= deviation;
  }

  void xavier(Parameter& p) const {
    const double out = static_cast<double>(p.shape[0]), in = static_cast<double>(p.size()) / out;
    const float bound = static_cast<float>(std::sqrt(6.0 / (in + out)));
    random(p).fill_uniform(p.values());
    for (float& value : p.values()) value = bound * (2 * value - 1);
  }

  void constant(Parameter& p, float value) const { std::fill(p.values().begin(), p.values().end(), value); }

  void fill(Parameter& p) const {
    const std::string& n = p.name;
    if (n == "rope.freqs") {
      for (std::int64_t i = 0; i < p.size(); ++i) {
        p.value[i] =
            static_cast<float>(std::pow(c_.rope_theta, -static_cast<double>(i) / static_cast<double>(p.size())));
      }
    } else if (n == "y_embedder.y_embedding") {
      normal(p, 1.0f / std::sqrt(static_cast<float>(c_.text_width)));
    } else if (contains(n, "scale_shift_table")) {
      normal(p, 1.0f / std::sqrt(static_cast<float>(c_.width())));
      if (p.size() == 6 * c_.width()) add_gate_bias(p);
    } else if (contains(n, "norm_q.") || contains(n, "norm_k.") || contains(n, "q_norm.") || contains(n, "k_norm.")) {
      const bool self = !contains(n, "attn2") && !contains(n, "cross_attn");
      constant(p, self ? static_cast<float>(c_.qk_gain) : 1.0f);
    } else if (n.ends_with(".bias")) {
      constant(p, 0);
    } else if (p.shape.size() == 1) {  // weights of norms
      constant(p, 1);
    } else if (begins_with_zero(n)) {
      constant(p, 0);
    } else {
      xavier(p);
    }
  }

  // The output layer; of STDiT3 also what would make a temporal block more than an identity, and the frame rate.
  static bool begins_with_zero(const std::string& n) {
    if (n == "proj_out.weight" || n == "final_layer.linear.weight" || n == "fps_embedder.mlp.2.weight") return true;
    return n.starts_with("temporal_blocks.") && (n.ends_with("attn.proj.weight") || n.ends_with("mlp.fc2.weight"));
  }

  void add_gate_bias(Parameter& p) const {
    for (const std::int64_t row : {2, 5}) {
      for (std::int64_t i = 0; i < c_.width(); ++i) p.value[row * c_.width() + i] += static_cast<float>(c_.gate_bias);
    }
  }

  // A shared bias for the heads that see positions.
  void fill_shared_bias(const Parameter& q, std::span<float> bias) const {
    random(q).fill_normal(bias);
    for (float& value : bias) value *= 0.3f;
    const std::int64_t turned = (c_.heads - c_.heads_without_rope) * c_.head_dim;
    std::fill(bias.begin() + turned, bias.end(), 0.0f);
  }

  void tie_keys(Parameter& p) {
    const std::int64_t d = c_.width();
    if (p.name.ends_with("attn1.to_k.weight") || p.name.ends_with("attn1.to_k.bias")) {
      std::string name = p.name;
      name.replace(name.find("to_k"), 4, "to_q");
      Parameter& q = *model_.parameters().find(name);
      if (p.name.ends_with("bias")) fill_shared_bias(q, q.values());
      std::copy_n(q.value, q.size(), p.value);
    } else if (p.name.ends_with(".attn.qkv.weight")) {
      std::copy_n(p.value, d * d, p.value + d * d);
    } else if (p.name.ends_with(".attn.qkv.bias")) {
      fill_shared_bias(p, p.values().first(sized(d)));
      std::copy_n(p.value, d, p.value + d);
    }
  }

  Denoiser& model_;
  const ModelConfig& c_;
};

}  // namespace

void initialise(Denoiser& model) { Initialiser(model).run(); }

}  // namespace reel::model
