#include "reel/diffusion/config.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"

namespace reel::diffusion {
namespace {

DiffusionConfig read(const char* text) {
  const Toml toml = Toml::parse(text, "run.toml");
  DiffusionConfig config;
  Settings settings(toml);
  visit(settings, config);
  toml.check_all_used();
  return config;
}

TEST(Config, ReadsEveryKeyAndKeepsTheDefaultsOfTheRest) {
  const DiffusionConfig config = read(
      "[diffusion]\nkind = 'ddpm'\ntimesteps = 'uniform'\nlogit_mean = -0.5\nlogit_std = 1.5\nshift = 3.0\n"
      "conditioning_frames = 2\ntext_dropout = 0.25\n");
  EXPECT_EQ(config.kind, "ddpm");
  EXPECT_EQ(config.timesteps, "uniform");
  EXPECT_EQ(config.logit_mean, -0.5);
  EXPECT_EQ(config.logit_std, 1.5);
  EXPECT_EQ(config.shift, 3);
  EXPECT_EQ(config.conditioning_frames, 2);
  EXPECT_EQ(config.text_dropout, 0.25);
  EXPECT_EQ(read("").timesteps, "logit-normal");
}

TEST(Config, ImpossibleValuesAreErrorsWithTheirLine) {
  for (const char* line : {"kind = 'edm'", "timesteps = 'cosine'", "shift = 0.0", "logit_std = -1.0",
                           "conditioning_frames = -1", "text_dropout = 1.5", "steps = 3"}) {
    const std::string message = message_of([&] { read((std::string("[diffusion]\n") + line + "\n").c_str()); });
    EXPECT_EQ(message.find("run.toml:2: "), 0u) << line << ": " << message;
  }
}

TEST(Config, TheModelFamilyDecidesUnlessTheFileDoes) {
  EXPECT_EQ(kind_of(read(""), Kind::kFlow), Kind::kFlow);
  EXPECT_EQ(kind_of(read(""), Kind::kDdpm), Kind::kDdpm);
  EXPECT_EQ(kind_of(read("[diffusion]\nkind = 'flow'\n"), Kind::kDdpm), Kind::kFlow);
  EXPECT_EQ(kind_of(read("[diffusion]\nkind = 'ddpm'\n"), Kind::kFlow), Kind::kDdpm);
}

}  // namespace
}  // namespace reel::diffusion
