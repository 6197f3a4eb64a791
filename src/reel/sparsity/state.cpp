// What checkpoints keep of a controller.
#include "reel/sparsity/state.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "reel/base/error.h"

namespace reel::sparsity {

namespace {

constexpr auto kNumbers = static_cast<std::int64_t>(kHeadFields.size());
constexpr float kMostSamples = 4096;  // of a group, more than any has

[[noreturn]] void damaged(const SafetensorsFile& file, const std::string& tensor) {
  throw Error(fmt::format("{}: {} contains impossible values", file.name(), tensor), "resume from another checkpoint");
}

}  // namespace

void State::save(const std::string& path, const predict::ModelHeads& shape) const {
  std::vector<float> numbers;
  for (const Head& head : heads) {
    for (const HeadField& field : kHeadFields) numbers.push_back(head.*field.value);
  }
  const std::vector<float> costs = {break_even.share, break_even.tile_cost};
  const std::vector<predict::Predictor::Saved> saved = predictor->save();
  SafetensorsWriter writer;
  writer.add("heads", {shape.layers, shape.heads, kNumbers}, numbers);
  writer.add("break_even", {2}, costs);
  for (const predict::Predictor::Saved& each : saved) writer.add(each.name, each.shape, each.values);
  for (std::size_t i = 0; i < averages.size(); ++i) {
    if (averages[i].size() > 0)
      writer.add("averages." + std::to_string(i), {static_cast<std::int64_t>(averages[i].size())}, averages[i]);
  }
  writer.write(path);
}

void State::load(const std::string& path, const predict::ModelHeads& shape, const SparsityConfig& config) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (!file.contains("heads") ||
      file.info("heads").shape != std::vector<std::int64_t>{shape.layers, shape.heads, kNumbers}) {
    throw Error(file.name() + ": belongs to another model", "the run file must describe the model of the checkpoint");
  }
  const Buffer<float> numbers = file.read_f32("heads");
  const float* number = numbers.data();
  for (Head& head : heads) {
    for (const HeadField& field : kHeadFields) {
      if (!std::isfinite(*number)) damaged(file, "heads");
      head.*field.value = *number++;
    }
    const auto share = [](float x) { return x >= 0 && x <= 1.01f; };
    if (!share(head.needed_predicted) || !share(head.needed_tiles) || head.samples < (head.profiles > 0 ? 1 : 0) ||
        head.samples > kMostSamples) {
      damaged(file, "heads");
    }
  }
  std::array<float, 2> costs;
  file.read_f32("break_even", costs);
  break_even = break_even_of(config, {costs[0], costs[1]});
  predictor->load(file);
  for (std::size_t i = 0; i < averages.size(); ++i) {
    const std::string name = "averages." + std::to_string(i);
    if (file.contains(name)) averages[i] = file.read_f32(name);
  }
}

}  // namespace reel::sparsity
