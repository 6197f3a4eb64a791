#include "reel/data/source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reel/base/testing.h"

namespace reel::data {
namespace {

std::string message(const char* text) {
  return message_of([&] {
    const Toml toml = Toml::parse(text, "run.toml");
    DataConfig config;
    Settings settings(toml);
    visit(settings, config);
    toml.check_all_used();
    make_source(config, {.channels = 3, .frames = 1, .height = 8, .width = 8});
  });
}

TEST(DataConfig, IsReadAndRefusesWhatMakesNoSense) {
  EXPECT_EQ(message("[data]\nsource = 'moving-shapes'\nvalidation = 4\nseed = 9\n"), "no error");
  EXPECT_NE(message("[data]\nsource = 'moving-shape'\n").find("run.toml:2: data.source"), std::string::npos);
  EXPECT_NE(message("[data]\nstride = 0\n").find("run.toml:2: data.stride"), std::string::npos);
  EXPECT_NE(message("[data]\nsource = 'latents'\n").find("data.source = \"latents\" needs data.path"),
            std::string::npos);
  const std::string storyboard = "[data]\nsource = 'storyboard'\n";
  EXPECT_NE(message((storyboard + "motion = 'still'\n").c_str()).find("run.toml:3: data.motion"), std::string::npos);
  EXPECT_NE(message((storyboard + "texture = 1.5\n").c_str()).find("run.toml:3: data.texture"), std::string::npos);
  EXPECT_NE(message((storyboard + "cell = 0\n").c_str()).find("run.toml:3: data.cell"), std::string::npos);
}

TEST(HoldOut, TakesTheNumberThatIsAskedForByNameAlone) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(fmt::format("clip-{:03}.mp4", i));
  const Held held = hold_out(names, 10, "d");
  EXPECT_EQ(held.validation.size(), 10u);
  EXPECT_EQ(held.training.size(), 90u);
  std::vector<std::string> chosen, reversed_chosen;
  for (const auto i : held.validation) chosen.push_back(names[static_cast<std::size_t>(i)]);
  std::reverse(names.begin(), names.end());
  for (const auto i : hold_out(names, 10, "d").validation)
    reversed_chosen.push_back(names[static_cast<std::size_t>(i)]);
  std::sort(reversed_chosen.begin(), reversed_chosen.end());
  EXPECT_EQ(chosen, reversed_chosen);
  // Not a block of neighbours: of 10 random clips of 100 hardly more than 3 share their first digit and none 7.
  int first_tens[10] = {};
  for (const std::string& name : chosen) ++first_tens[name[6] - '0'];
  EXPECT_LT(*std::max_element(first_tens, first_tens + 10), 6);
}

TEST(HoldOut, KeepsClipsOfOneNameTogether) {
  const std::vector<std::string> names = {"a", "a", "a", "b", "b", "b", "c", "c", "c"};
  for (int count = 1; count <= 6; ++count) {
    const Held held = hold_out(names, count, "d");
    EXPECT_EQ(held.validation.size(), static_cast<std::size_t>((count + 2) / 3 * 3));
    for (std::size_t i = 0; i < held.validation.size(); i += 3) EXPECT_EQ(held.validation[i] % 3, 0);
  }
}

TEST(HoldOut, RefusesToTakeEverything) {
  EXPECT_EQ(hold_out({"a", "b"}, 0, "d").training.size(), 2u);
  EXPECT_NE(message_of([] {
              hold_out({"a", "b"}, 2, "clips/");
            }).find("clips/: data.validation = 2 leaves none of the 2"),
            std::string::npos);
  EXPECT_NE(message_of([] { hold_out({}, 0, "clips/"); }).find("clips/: there are no clips"), std::string::npos);
}

}  // namespace
}  // namespace reel::data
