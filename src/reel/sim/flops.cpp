#include <algorithm>

#include "reel/base/sized.h"
#include "reel/sim/layers.h"

namespace reel::sim {

namespace {

double sparsity(const Model& m, std::int64_t layer) {
  if (!m.sparsity.empty()) return m.sparsity[m.sparsity.size() == 1 ? 0 : sized(layer)];
  double sum = 0;
  for (const double s : m.head_sparsity) sum += s;
  return m.head_sparsity.empty() ? 0 : sum / static_cast<double>(m.head_sparsity.size());
}

// Weights that a token meets in the products of a layer.
double layer_weights(const Model& m, bool all_experts) {
  const auto h = static_cast<double>(m.hidden), ffn = static_cast<double>(m.ffn);
  const double mlp = h * ffn * (m.gated ? 3 : 2);
  if (m.kind == "dit") {
    const double block = h * h * (m.text > 0 ? 8 : 4) + mlp;
    return m.attention == "3d" ? block : 2 * block;
  }
  const double attention = 2 * h * static_cast<double>((m.heads + m.kv_heads) * m.head_dim);
  if (!m.moe()) return attention + mlp;
  const double shared = h * static_cast<double>(m.shared_ffn) * (m.gated ? 3 : 2);
  return attention + shared + mlp * static_cast<double>(all_experts ? m.experts : m.top_k) +
         h * static_cast<double>(m.experts);
}

}  // namespace

double model_parameters(const Job& job) {
  const Model& m = job.model;
  double sum = static_cast<double>(m.layers) * (layer_weights(m, true) + 4 * static_cast<double>(m.hidden));
  if (m.kind == "gpt") sum += static_cast<double>(m.vocab) * static_cast<double>(m.hidden) * (m.tied ? 1 : 2);
  return sum;
}

double model_flops(const Job& job) {
  const Model& m = job.model;
  const auto h = static_cast<double>(m.hidden), tokens = static_cast<double>(m.tokens()),
             layers = static_cast<double>(m.layers);
  double sample = 6 * tokens * layers * layer_weights(m, false);
  if (m.kind == "gpt") {
    sample += 6 * tokens * h * static_cast<double>(m.vocab) +
              12 * tokens * tokens * static_cast<double>(m.attended()) * layers;
  } else if (m.attention == "3d") {
    for (std::int64_t layer = 0; layer < m.layers; ++layer)
      sample += 12 * tokens * tokens * h * (1 - sparsity(m, layer));
  } else {
    sample += 12 * tokens * h * layers * static_cast<double>(m.height * m.width + m.frames);
  }
  // Cross-attention: keys and values of the text (two of the eight squares above) are of text tokens, not of the clip.
  if (m.kind == "dit" && m.text > 0) {
    const double text = static_cast<double>(m.text), blocks = layers * (m.attention == "3d" ? 1 : 2);
    sample += blocks * (12 * tokens * text * h + 6 * 2 * h * h * (text - tokens));
  }
  return sample * static_cast<double>(job.global_batch);
}

}  // namespace reel::sim
