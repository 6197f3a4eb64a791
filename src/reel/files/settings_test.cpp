#include "reel/files/settings.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"

namespace reel {
namespace {

struct Config {
  std::int64_t steps = 100;
  double lr = 0.5;
  bool ema = true;
  std::string kind = "cosine", out = "runs";
  std::vector<std::int64_t> group = {4, 4, 4};
};

void visit(Settings& s, Config& c) {
  s.section("train", "the loop");
  s.integer("train.steps", c.steps, 1, Settings::kMany, "optimizer steps");
  s.number("train.lr", c.lr, 0, 1, "learning rate");
  s.boolean("train.ema", c.ema, "keep an average");
  s.section("more", "the rest");
  s.choice("more.kind", c.kind, {"constant", "cosine"}, "schedule");
  s.string("more.out", c.out, "folder");
  s.integers("more.group", c.group, 3, "tile");
}

TEST(Settings, ReadsWhatTheFileNamesAndKeepsTheRest) {
  const Toml toml = Toml::parse("[train]\nsteps = 7\nema = false\n[more]\nkind = 'constant'\ngroup = [1, 2, 3]\n", "f");
  Config config;
  Settings settings(toml);
  visit(settings, config);
  toml.check_all_used();
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.lr, 0.5);
  EXPECT_FALSE(config.ema);
  EXPECT_EQ(config.kind, "constant");
  EXPECT_EQ(config.group, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Settings, ErrorsNameFileLineAndKey) {
  const auto message = [](const char* text) {
    return message_of([&] {
      const Toml toml = Toml::parse(text, "run.toml");
      Config config;
      Settings settings(toml);
      visit(settings, config);
      toml.check_all_used();
    });
  };
  EXPECT_NE(message("[train]\nsteps = 0\n").find("run.toml:2: train.steps"), std::string::npos);
  EXPECT_NE(message("[more]\nkind = 'cosin'\n").find("run.toml:2: more.kind"), std::string::npos);
  EXPECT_NE(message("[more]\ngroup = [1, 2]\n").find("more.group must have 3 numbers, found 2"), std::string::npos);
  EXPECT_NE(message("[train]\nstpes = 3\n").find("run.toml:2: unknown key 'train.stpes'"), std::string::npos);
}

TEST(Settings, DescribesEveryKeyWithItsDefault) {
  Config config;
  Settings settings;
  visit(settings, config);
  const std::string all = describe(settings, "");
  for (const char* part : {"[train]  the loop", "train.steps", "100", "1 or more", "more.group", "[4, 4, 4]",
                           "constant | cosine", "0 to 1"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part;
  }
  const std::string one = describe(settings, "more");
  EXPECT_EQ(one.find("train.steps"), std::string::npos);
  EXPECT_NE(message_of([&] { describe(settings, "trian"); }).find("no section 'trian'"), std::string::npos);
}

}  // namespace
}  // namespace reel
