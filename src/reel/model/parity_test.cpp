// Every fixture of tests/oracle: PyTorch's sample, loss and gradients of the same weights and inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "reel/model/testing.h"

namespace reel::model {
namespace {

using testing::How;
using testing::Result;

class Parity : public ::testing::TestWithParam<std::string> {
 protected:
  Parity() : folder_(testing::kFixtures + "/" + GetParam()), in_(SafetensorsFile::open(folder_ + "/in.safetensors")) {}

  testing::Values values() const {
    testing::Values v;
    v.latents = in_.info("hidden_states").shape;
    v.text = in_.info("encoder_hidden_states").shape;
    v.latents_values = numbers("hidden_states");
    v.text_values = numbers("encoder_hidden_states");
    v.more.times = numbers("timestep");
    v.more.fps = numbers("fps");
    v.more.height = numbers("height");
    v.more.width = numbers("width");
    for (const float flag : numbers("mask")) v.more.text_mask.push_back(flag != 0 ? 1 : 0);
    for (const float flag : numbers("x_mask")) v.more.given_frames.push_back(flag != 0 ? 0 : 1);
    return v;
  }

  Result run(How how) const {
    const std::string lists = folder_ + "/lists.safetensors";
    if (std::filesystem::exists(lists)) {
      how.lists = std::make_shared<lists::OrderedLists>(lists::load_key_lists(lists));
    }
    const auto model =
        load_model(folder_, how.ghost ? tape::Parameters::With::kGhostGradients : tape::Parameters::With::kGradients);
    return testing::run(*model, values(), how, numbers("target"));
  }

  std::vector<float> numbers(const std::string& name) const {
    if (!in_.contains(name)) return {};
    std::vector<float> values(in_.info(name).elements);
    in_.read_f32(name, values);
    return values;
  }

  std::string folder_;
  SafetensorsFile in_;
};

// As tests/oracle/README.md has it. Both sides compute in f32: torch beside itself in f64 takes 3 % of this.
TEST_P(Parity, SampleLossAndEveryGradientAreTorchs) {
  constexpr double kOfItself = 1e-4, kOfGradients = 1e-6;
  const SafetensorsFile expected = SafetensorsFile::open(folder_ + "/expected.safetensors");
  const Result got = run({.threads = 2});
  std::map<std::string, std::vector<float>> all = {{"sample", got.sample}, {"loss", {got.loss}}};
  for (const auto& [name, gradient] : got.gradients) all["grad." + name] = gradient;

  EXPECT_EQ(got.shape, expected.info("sample").shape);
  double largest_gradient = 0;
  for (const std::string& name : expected.names()) {
    EXPECT_TRUE(all.contains(name)) << name << " is missing";
    if (name.starts_with("grad.")) {
      largest_gradient = std::max(largest_gradient, testing::largest(expected.read_f32(name)));
    }
  }
  EXPECT_GT(largest_gradient, 0);
  for (const auto& [name, value] : all) {
    ASSERT_TRUE(expected.contains(name)) << name << " is not expected";
    const Buffer<float> want = expected.read_f32(name);
    const double beside_others = name.starts_with("grad.") ? kOfGradients * largest_gradient : 0;
    EXPECT_LE(testing::difference(value, want), std::max(kOfItself * testing::largest(want), beside_others)) << name;
  }
}

TEST_P(Parity, BitsDependNeitherOnThreadsNorOnRecomputing) {
  const Result plain = run({});
  testing::expect_same_bits(run({.threads = 2}), plain);
  testing::expect_same_bits(run({.recompute = true}), plain);
  testing::expect_same_bits(run({.threads = 2, .recompute = true}), plain);
}

TEST_P(Parity, WithoutGradientsTheSampleIsTheSame) {
  const Result plain = run({}), sampling = run({.gradients = false});
  EXPECT_EQ(sampling.sample, plain.sample);
  EXPECT_EQ(sampling.loss, plain.loss);
  EXPECT_LT(sampling.peak, plain.peak);
}

TEST_P(Parity, AGhostRunsTheSameOperationsInTheSameMemory) {
  for (const bool recompute : {false, true}) {
    for (const bool gradients : {false, true}) {
      SCOPED_TRACE(fmt::format("recompute {}, gradients {}", recompute, gradients));
      const Result real = run({.recompute = recompute, .gradients = gradients});
      const Result ghost = run({.recompute = recompute, .ghost = true, .gradients = gradients});
      EXPECT_EQ(ghost.shape, real.shape);
      EXPECT_EQ(ghost.operations, real.operations);
      EXPECT_EQ(ghost.peak, real.peak);
    }
  }
}

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::kFixtures)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Parity, ::testing::ValuesIn(fixtures()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace reel::model
