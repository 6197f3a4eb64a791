// What checkpoints keep of a controller.
#include "base/error.h"
#include "sparsity/controller.h"

namespace reel::sparsity {

namespace {

constexpr std::int64_t kHeadFloats = sizeof(Head) / sizeof(float);

template <class T>
auto as_floats(std::vector<T>& values) {
  return std::span<float>(reinterpret_cast<float*>(values.data()), values.size() * sizeof(T) / sizeof(float));
}

}  // namespace

void Controller::save(const std::string& path) const {
  std::vector<Head> heads = heads_;
  const std::vector<float> costs = {static_cast<float>(options_.break_even.share),
                                    static_cast<float>(options_.break_even.tile_cost)};
  const std::vector<Predictor::Saved> predictor = predictor_->save();
  SafetensorsWriter writer;
  writer.add("heads", {shape_.layers, shape_.heads, kHeadFloats}, std::span<const float>(as_floats(heads)));
  writer.add("break_even", {2}, costs);
  for (const Predictor::Saved& each : predictor) writer.add(each.name, each.shape, each.values);
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (averages_[i].size() > 0)
      writer.add("averages." + std::to_string(i), {static_cast<std::int64_t>(averages_[i].size())}, averages_[i]);
  }
  writer.write(path);
}

void Controller::load(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (!file.contains("heads") ||
      file.info("heads").shape != std::vector<std::int64_t>{shape_.layers, shape_.heads, kHeadFloats}) {
    throw Error(file.name() + ": is of another model", "the run file must describe the model of the checkpoint");
  }
  file.read_f32("heads", as_floats(heads_));
  if (config_.break_even == 0) {
    const Buffer<float> costs = file.read_f32("break_even");
    options_.break_even = {static_cast<double>(costs[0]), static_cast<double>(costs[1])};
  }
  predictor_->load(file);
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const std::string name = "averages." + std::to_string(i);
    if (file.contains(name)) averages_[i] = file.read_f32(name);
  }
}

}  // namespace reel::sparsity
