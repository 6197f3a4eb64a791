// What the tests of the models share: passes over inputs on disk or random ones, small models. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/files/safetensors.h"
#include "reel/model/family.h"
#include "reel/model/folder.h"
#include "reel/tape/testing.h"

namespace reel::model::testing {

constexpr double kRounding = 1e-5;  // the same sums of f32 in another order

using tape::Parameters;
using tape::Shape;

inline const std::string kFixtures = REEL_SOURCE_DIR "/tests/oracle/fixtures";

// A folder under the temporary one, empty at first and gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(::testing::TempDir() + "reel_model_" + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  operator const std::string&() const { return path_; }
  std::string operator/(const std::string& file) const { return path_ + "/" + file; }

 private:
  std::string path_;
};

// Input as numbers, for tapes to come.
struct Values {
  Shape latents, text;
  std::vector<float> latents_values, text_values;
  Input more;  // the rest

  Input on(Tape& tape) const {
    Input in = more;
    in.latents = tape.copy_in(latents, latents_values);
    in.text = tape.copy_in(text, text_values);
    return in;
  }
};

inline std::vector<float> random_values(const Shape& shape, std::uint64_t stream) {
  return tape::testing::random_values(shape, stream);
}

// size: batch, frames, height, width
inline Values random_input(const ModelConfig& c, const std::array<std::int64_t, 4>& size, std::int64_t tokens) {
  Values v;
  v.latents = {size[0], c.channels, size[1], size[2], size[3]};
  v.text = {size[0], tokens, c.text_width};
  v.latents_values = random_values(v.latents, 1);
  v.text_values = random_values(v.text, 2);
  for (std::int64_t i = 0; i < size[0]; ++i) {
    v.more.times.push_back(950.0f - 300.0f * static_cast<float>(i));
    v.more.fps.push_back(24.0f - static_cast<float>(i));
    v.more.height.push_back(8.0f * static_cast<float>(size[2]));
    v.more.width.push_back(8.0f * static_cast<float>(size[3]));
  }
  return v;
}

// A model of each family, narrow and shallow.
inline ModelConfig small(const std::string& family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.heads = 2;
  c.head_dim = 8;
  c.channels = 3;
  c.text_width = 12;
  c.text_tokens = 6;
  c.frames = 4;
  c.base_latents = 8;
  return c;
}
inline const std::vector<std::string> kFamilies = [] {
  std::vector<std::string> names;
  for (const Family* family : families()) names.push_back(family->name);
  return names;
}();
inline bool full_attention(const std::string& family) { return family_of({.family = family}).full_attention; }

// Every weight random, also where training begins with zeros or ones, and of a size that keeps activations near one.
inline std::unique_ptr<Denoiser> random_model(const ModelConfig& config) {
  auto model = make_denoiser(config, Parameters::With::kGradients);
  std::uint64_t stream = 100;
  for (Parameter& p : model->parameters().all()) {
    const std::span<float> values = p.values();
    Random(tape::testing::test_seed(), stream++).fill_normal(values);
    const bool norm = p.shape.size() == 1 && p.name.ends_with("weight");
    const float scale = p.shape.size() > 1 ? 1.0f / std::sqrt(static_cast<float>(p.size() / p.shape[0])) : 0.2f;
    for (float& value : values) value = scale * value + (norm ? 1.0f : 0.0f);
  }
  return model;
}

struct How {
  int threads = 1;
  bool recompute = false, ghost = false, gradients = true;
  std::shared_ptr<const lists::OrderedLists> lists = nullptr;
};

struct Result {
  Shape shape;
  std::vector<float> sample;
  float loss = 0;
  std::map<std::string, std::vector<float>> gradients;  // by name in the files
  std::vector<std::string> operations;
  std::size_t peak = 0;
};

// One pass, its loss against `target` (zeros where that is empty) and all gradients. The pool checks that nothing stays
// behind.
inline Result run(Denoiser& model, const Values& values, const How& how = {}, std::span<const float> target = {}) {
  Threads threads(how.threads);
  tape::Pool pool(how.ghost);
  Recorder recorder;
  Result result;
  {
    Tape tape(threads, pool, {.gradients = how.gradients, .recorder = &recorder});
    Context context(tape);
    context.recompute = how.recompute;
    context.lists = how.lists;
    model.parameters().clear_gradients();
    const Tensor sample = model.forward(context, values.on(tape));
    result.shape = sample.shape();
    if (!how.ghost) result.sample = tape::testing::copy_of(sample.span());
    const Tensor wanted = target.empty() ? tape.zeros(sample.shape()) : tape.copy_in(sample.shape(), target);
    const Tensor loss = tape::mean_squared_error(tape, sample, wanted);
    result.loss = loss.item();
    if (how.gradients) tape.backward(loss);
  }
  EXPECT_EQ(pool.live_bytes(), 0u) << "tensors outlive their pass";
  result.operations = tape::testing::lines(recorder);
  result.peak = pool.peak_bytes();
  if (!how.gradients || how.ghost) return result;
  model.parameters().zero_untouched_gradients();
  for (const Parameter& p : model.parameters().all()) {
    if (!p.trained) continue;
    result.gradients[file_name_of(model.config(), p.name)].assign(p.gradient, p.gradient + p.size());
  }
  return result;
}

inline void expect_same_bits(const Result& a, const Result& b) {
  EXPECT_EQ(a.shape, b.shape);
  tape::testing::expect_same_bits(a.sample, b.sample);
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(b.gradients.contains(name));
    tape::testing::expect_same_bits(gradient, b.gradients.at(name));
  }
}

inline double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

// The largest difference; infinite where one of them is no number.
inline double difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = d <= std::numeric_limits<double>::max() ? std::max(most, d) : std::numeric_limits<double>::infinity();
  }
  return most;
}

}  // namespace reel::model::testing
