#include "reel/layout/degrees.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"

namespace reel::layout {
namespace {

TEST(Degrees, AreReadAsTheyAreWritten) {
  for (const char* text : {"", "dsp=4", "ulysses=2,ring=4", "ring=3", "ring=2,ulysses=4", "ulysses-both=4", "gather=2",
                           "ulysses=4,gather=2", "gather=2,ulysses=4", "auto"}) {
    EXPECT_EQ(parse_degrees(text).text(), text);
  }
  EXPECT_EQ(parse_degrees("ulysses=2,ring=4"), (Degrees{.ulysses = 2, .ring = 4}));
  EXPECT_EQ(parse_degrees("ring=4,ulysses=2"), (Degrees{.ulysses = 2, .ring = 4, .keys_inside = true}));
  EXPECT_EQ(parse_degrees("ulysses-both=4"), (Degrees{.ulysses = 4, .both = true}));
  EXPECT_EQ(parse_degrees("ulysses=3,gather=4").ranks(), 12);
}

TEST(Degrees, OfOneSayNothing) {
  EXPECT_EQ(parse_degrees("dsp=1").text(), "");
  EXPECT_EQ(parse_degrees("ulysses-both=1"), Degrees{});
  EXPECT_EQ(parse_degrees("ring=2,ulysses=1").text(), "ring=2");
  EXPECT_EQ(parse_degrees("dsp=1,ring=2"), (Degrees{.ring = 2}));
}

TEST(Degrees, MistakesAreNamed) {
  for (const auto& [text, at] :
       std::vector<std::pair<const char*, const char*>>{{"dps=4", "dps=4"},
                                                        {"dsp", "dsp"},
                                                        {"dsp=", "dsp="},
                                                        {"dsp=0", "dsp=0"},
                                                        {"dsp=-2", "dsp=-2"},
                                                        {"dsp=4x", "dsp=4x"},
                                                        {"dsp=2,dsp=2", "dsp=2"},
                                                        {"ulysses=2,", "ulysses=2"},
                                                        {",ring=2", ""},
                                                        {"ulysses=2;ring=2", "ulysses=2;ring=2"},
                                                        {"dsp=99999999999", "dsp=99999999999"},
                                                        {"ulysses=65536,ring=65536", "ring=65536"},
                                                        {"auto,ring=2", "auto"}}) {
    const std::string message = message_of([&] { parse_degrees(text); });
    EXPECT_TRUE(message.starts_with(fmt::format("cannot read the plan \"{}\" at \"{}\" | use \"dsp=4\"", text, at)))
        << message;
  }
}

TEST(Degrees, ThatDoNotGoTogetherAreRefused) {
  for (const auto& [text, mixed] :
       std::vector<std::pair<const char*, const char*>>{{"dsp=2,ring=2", "dsp and ring"},
                                                        {"ulysses=2,dsp=2", "ulysses and dsp"},
                                                        {"ring=2,gather=2", "ring and gather"},
                                                        {"ulysses-both=2,ring=2", "ulysses-both and ring"},
                                                        {"ulysses=2,ulysses-both=2", "ulysses and ulysses-both"},
                                                        {"ulysses=2,ring=2,gather=2", "ulysses and ring and gather"}}) {
    EXPECT_EQ(message_of([&] { parse_degrees(text); }),
              fmt::format("the plan \"{}\" mixes {} | ulysses goes together with ring or with gather; dsp and "
                          "ulysses-both stand alone",
                          text, mixed));
  }
}

TEST(Degrees, ThatAreNotBuiltAreRefusedByName) {
  const auto refused = [](const char* text) {
    return message_of([&] { refuse(parse_degrees(text), {"gather", "auto", "ulysses-both"}, "the simulator"); });
  };
  EXPECT_EQ(
      refused("ulysses=2,gather=4"),
      "the plan \"ulysses=2,gather=4\": the simulator does not know gather yet | use \"ring=4\" in its place: all "
      "keys travel");
  EXPECT_NE(refused("auto").find("does not know auto yet | name the degrees"), std::string::npos);
  EXPECT_NE(refused("ulysses-both=4").find("use \"dsp=4\" or \"ulysses=4\""), std::string::npos);
  EXPECT_NO_THROW(refuse(parse_degrees("ulysses=2,ring=4"), {"gather", "auto"}, "nobody"));
}

TEST(Degrees, OfAFileNameTheLine) {
  const auto read = [](const std::string& text) {
    const Toml toml = Toml::parse(text, "run.toml");
    Settings settings(toml);
    Degrees degrees{.dsp = 2};
    visit_degrees(settings, "parallel.plan", degrees, "how ranks share a clip");
    return degrees;
  };
  EXPECT_EQ(read("[parallel]\nplan = \"ring=2\"\n"), (Degrees{.ring = 2}));
  EXPECT_EQ(read("[parallel]\n"), (Degrees{.dsp = 2})) << "what the file does not name stays";
  EXPECT_TRUE(message_of([&] {
                read("[parallel]\nplan = \"rng=2\"\n");
              }).starts_with("run.toml:2: parallel.plan: cannot read the plan \"rng=2\" at \"rng=2\""));
}

}  // namespace
}  // namespace reel::layout
