// What checkpoints keep of a HiddenPredictor.
#include <fmt/format.h>

#include "reel/base/error.h"
#include "reel/predict/hidden_predictor.h"

namespace reel::predict {

std::vector<Predictor::Saved> HiddenPredictor::save() const {
  const std::int64_t n = shape_.heads * rank_;
  std::vector<Saved> saved = {{"hidden.updates", {shape_.layers}, {}}};
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    saved[0].values.push_back(layer.learnt.size() > 0 ? static_cast<float>(layer.updates) : -1.0f);
    if (layer.learnt.size() == 0) continue;
    saved.push_back({fmt::format("hidden.{}.picked", l),
                     {shape_.heads, rank_},
                     std::vector<float>(layer.picked.begin(), layer.picked.end())});
    saved.push_back({fmt::format("hidden.{}.energies", l), {shape_.heads, shape_.head_dim}, layer.energies});
    const auto add = [&](const char* name, const Buffer<float>& values) {
      saved.push_back(
          {fmt::format("hidden.{}.{}", l, name), {2, n, width_ + 2}, std::vector<float>(values.begin(), values.end())});
    };
    add("learnt", layer.learnt);
    add("first", layer.first);
    add("second", layer.second);
  }
  return saved;
}

void HiddenPredictor::load(const SafetensorsFile& file) {
  const auto read = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    if (!file.contains(name) || file.info(name).shape != shape) {
      throw Error(file.name() + ": has no predictor from hidden states for this model and rank",
                  "the run file must describe the model, sparsity.predictor and sparsity.rank of the checkpoint");
    }
    return file.read_f32(name);
  };
  const std::int64_t n = shape_.heads * rank_;
  const Buffer<float> updates = read("hidden.updates", {shape_.layers});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    layer = Layer();
    if (!(updates[l] >= 0)) continue;
    const std::string name = fmt::format("hidden.{}.", l);
    for (const float value : read(name + "picked", {shape_.heads, rank_})) {
      if (!(value >= 0 && value < static_cast<float>(shape_.head_dim))) {
        throw Error(fmt::format("{}: {}picked holds {}, numbers of a head are 0 to {}", file.name(), name, value,
                                shape_.head_dim - 1),
                    "the checkpoint is damaged: resume from another one");
      }
      layer.picked.push_back(static_cast<std::int32_t>(value));
    }
    const Buffer<float> counted = read(name + "energies", {shape_.heads, shape_.head_dim});
    layer.energies.assign(counted.begin(), counted.end());
    layer.learnt = read(name + "learnt", {2, n, width_ + 2});
    layer.first = read(name + "first", {2, n, width_ + 2});
    layer.second = read(name + "second", {2, n, width_ + 2});
    layer.updates = static_cast<std::int64_t>(updates[l]);
  }
}

}  // namespace reel::predict
