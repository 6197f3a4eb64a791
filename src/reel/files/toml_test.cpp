#include "reel/files/toml.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reel/base/error.h"
#include "reel/base/testing.h"

namespace reel {
namespace {

const char* kRun = R"(seed = 7
[train]
steps = 2000
rate = 1e-4
resume = true
betas = [0.9, 1]
[model]
name = "wan"
sizes = [16, 32]
tags = ["a", "b"]
[device.h100]
memory = 80
[device."a100.80"]
memory = 40
[[level]]
name = "nvlink"
[[level]]
name = "ib"
)";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Toml, EveryTypeIsRead) {
  const Toml toml = Toml::parse(kRun, "run.toml");
  EXPECT_EQ(toml.integer("seed"), 7);
  EXPECT_EQ(toml.integer("train.steps", 5), 2000);
  EXPECT_EQ(toml.number("train.rate"), 1e-4);
  EXPECT_EQ(toml.number("train.steps"), 2000.0);  // an integer is a number
  EXPECT_TRUE(toml.boolean("train.resume"));
  EXPECT_EQ(toml.string("model.name"), "wan");
  EXPECT_EQ(toml.integers("model.sizes"), (std::vector<std::int64_t>{16, 32}));
  EXPECT_EQ(toml.numbers("train.betas"), (std::vector<double>{0.9, 1}));
  EXPECT_EQ(toml.strings("model.tags"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(toml.numbers("train.steps"), std::vector<double>{2000});  // a single value is a list of one
  EXPECT_EQ(toml.choice("model.name", {"dit", "wan"}), "wan");
  EXPECT_TRUE(toml.has("train"));
  EXPECT_TRUE(toml.has("level[1].name"));
  EXPECT_FALSE(toml.has("level[2].name"));
  EXPECT_FALSE(toml.has("no.such.key"));
}

TEST(Toml, FallbacksStandInForAbsentKeysOnly) {
  const Toml toml = Toml::parse("bad = 'x'", "run.toml");
  EXPECT_EQ(toml.integer("a.b", 3), 3);
  EXPECT_EQ(toml.number("a.c", 0.5), 0.5);
  EXPECT_TRUE(toml.boolean("a.d", true));
  EXPECT_EQ(toml.string("a.e", "none"), "none");
  EXPECT_EQ(toml.integers("a.f", {1, 2}), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(toml.numbers("a.g", {}).empty());
  EXPECT_TRUE(toml.strings("a.h", {}).empty());
  EXPECT_EQ(toml.choice("a.i", {"x", "y"}, "y"), "y");
  EXPECT_EQ(toml.integer_in("a.j", 1, 10, 0), 0);  // a fallback may say "not set" with a value outside
  EXPECT_THROW(toml.integer("bad", 3), Error);
}

TEST(Toml, TablesAndArraysOfTablesAreListed) {
  const Toml toml = Toml::parse(kRun, "run.toml");
  EXPECT_EQ(toml.tables("device"), (std::vector<std::string>{"\"a100.80\"", "h100"}));
  for (const std::string& device : toml.tables("device")) EXPECT_GE(toml.integer("device." + device + ".memory"), 40);
  EXPECT_EQ(toml.tables(""), (std::vector<std::string>{"device", "model", "train"}));
  EXPECT_TRUE(toml.tables("nothing").empty());
  EXPECT_EQ(toml.size("level"), 2u);
  EXPECT_EQ(toml.size("nothing"), 0u);
  EXPECT_EQ(toml.string("level[1].name"), "ib");
  EXPECT_THROW(toml.tables("seed"), Error);
  EXPECT_THROW(toml.size("train"), Error);
}

TEST(Toml, WrongTypesNameLineKeyAndValue) {
  const Toml toml = Toml::parse(
      "[train]\n\nsteps = \"many\"\nrate = true\nname = 3\nlist = [1, \"a\"]\nday = 1979-05-27\n", "run.toml");
  EXPECT_EQ(message_of([&] { toml.integer("train.steps"); }),
            "run.toml:3: train.steps must be an integer, found the string \"many\" | write an integer there");
  const auto starts = [&](const auto& work, const std::string& expected) {
    const std::string message = message_of(work);
    EXPECT_EQ(message.find(expected), 0u) << message << "\n  expected " << expected;
  };
  starts([&] { toml.number("train.rate"); }, "run.toml:4: train.rate must be a number, found the boolean true");
  starts([&] { toml.string("train.name"); }, "run.toml:5: train.name must be a string, found the integer 3");
  starts([&] { toml.boolean("train.name"); }, "run.toml:5: train.name must be true or false, found the integer 3");
  starts([&] { toml.integers("train.list"); }, "run.toml:6: train.list[1] must be an integer, found the string \"a\"");
  starts([&] { toml.integers("train.rate"); },
         "run.toml:4: train.rate must be an array of integers, found the boolean true");
  starts([&] { toml.string("train.day"); }, "run.toml:7: train.day must be a string, found a date");
  starts([&] { toml.integer("train"); }, "run.toml:1: train must be an integer, found a table");
  starts([&] { toml.integer("train.name.x"); }, "run.toml:5: train.name must be a table, found the integer 3");
  starts([&] { toml.integer("train..x"); }, "run.toml: 'train..x' is not a key");
}

TEST(Toml, MissingKeysSayWhereToAddThemOrWhatWasMisspelt) {
  const Toml toml = Toml::parse("[train]\nstpes = 3\n", "run.toml");
  EXPECT_EQ(message_of([&] { toml.string("model.name"); }),
            "run.toml: model.name is missing | add name = ... to [model]");
  EXPECT_EQ(message_of([&] { toml.integer("seed"); }), "run.toml: seed is missing | add seed = ...");
  EXPECT_EQ(message_of([&] { toml.integer("train.steps"); }),
            "run.toml: train.steps is missing | is 'train.stpes' at run.toml:2 meant to be it?");
}

TEST(Toml, RangesAreChecked) {
  const Toml toml = Toml::parse("steps = -4\nrate = nan\n", "run.toml");
  EXPECT_EQ(toml.integer_in("steps", -4, -4), -4);
  EXPECT_EQ(message_of([&] { toml.integer_in("steps", 1, 100); }),
            "run.toml:1: steps is -4 | use a value from 1 to 100");
  EXPECT_EQ(message_of([&] { toml.integer_in("steps", 1, std::numeric_limits<std::int64_t>::max()); }),
            "run.toml:1: steps is -4 | use 1 or more");
  EXPECT_EQ(message_of([&] { toml.number_in("rate", 0, 1); }), "run.toml:2: rate is nan | use a value from 0 to 1");
  EXPECT_EQ(toml.number_in("steps", -INFINITY, 0), -4.0);
  EXPECT_EQ(message_of([&] { toml.number_in("steps", 0, INFINITY); }), "run.toml:1: steps is -4 | use 0 or more");
}

TEST(Toml, ChoicesNameTheNearest) {
  const Toml toml = Toml::parse("name = 'wna'\n", "run.toml");
  EXPECT_EQ(message_of([&] {
              toml.choice("name", {"dit", "wan"});
            }),
            "run.toml:1: name is \"wna\" | did you mean 'wan'?");
}

TEST(Toml, UnknownKeysAreFoundWithTheirLineAndTheNearestKnownKey) {
  const auto check = [](const std::string& text) {
    const Toml toml = Toml::parse(text, "run.toml");
    toml.integer("train.steps", 1);
    toml.number("train.rate", 1);
    toml.string("model.name", "");
    toml.integer("seed", 0);
    for (std::size_t i = 0; i < toml.size("level"); ++i) toml.string("level[" + std::to_string(i) + "].name", "");
    return message_of([&] { toml.check_all_used(); });
  };
  EXPECT_EQ(check("seed = 1\n[train]\nsteps = 1\n[model]\n[[level]]\nname = 'a'\n"), "no error");
  EXPECT_EQ(check("[train]\n\nstpes = 1\n"), "run.toml:3: unknown key 'train.stpes' | did you mean 'train.steps'?");
  EXPECT_EQ(check("[tarin]\nsteps = 1\n"), "run.toml:2: unknown key 'tarin.steps' | did you mean 'train.steps'?");
  EXPECT_EQ(check("steps = 1\n"), "run.toml:1: unknown key 'steps' | did you mean 'train.steps'?");
  EXPECT_EQ(check("[train]\noptimizer = 1\n"),
            "run.toml:2: unknown key 'train.optimizer' | known keys of [train]: rate, steps");
  EXPECT_EQ(check("[cluster]\nnodes = 1\n"), "run.toml:2: unknown key 'cluster.nodes' | known sections: model, train");
  EXPECT_EQ(check("[cluster]\n"), "run.toml:1: unknown table 'cluster' | known keys: level, seed");
  EXPECT_EQ(check("[[level]]\nname = 'a'\n[[level]]\nnmae = 'b'\n"),
            "run.toml:4: unknown key 'level[1].nmae' | did you mean 'level[1].name'?");
  EXPECT_EQ(check("zz = 1\n[train]\nyy = 2\n").find("run.toml:1: unknown key 'zz'"), 0u);  // the first in the file
}

TEST(Toml, SyntaxErrorsNameTheLine) {
  const std::string message = message_of([] { Toml::parse("a = 1\nb = [1,\n", "run.toml"); });
  EXPECT_EQ(message.find("run.toml:"), 0u) << message;
  EXPECT_EQ(message_of([] { Toml::parse("a = 1\na = 2\n", "run.toml"); }).find("run.toml:2: "), 0u);
  EXPECT_THROW(Toml::parse("a = '\xff'", "run.toml"), Error);
  EXPECT_THROW(Toml::load("no/such/run.toml"), Error);
}

TEST(Toml, OverridesReplaceAndAdd) {
  Toml toml = Toml::parse(kRun, "run.toml");
  toml.set("train.steps=5");
  toml.set(" new.table.key = [1, 2] ");
  toml.set("parallel.plan=ulysses=2,ring=4");
  toml.set("model.name=dit");
  toml.set("model.note=");
  toml.set("quoted=\"a b\"");
  toml.set("level[1].name=eth");
  toml.set("device.\"a100.80\".memory=1");
  toml.set("lines=1\nseed=9");
  EXPECT_EQ(toml.integer("train.steps"), 5);
  EXPECT_EQ(toml.number("train.rate"), 1e-4);
  EXPECT_EQ(toml.integers("new.table.key"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(toml.string("parallel.plan"), "ulysses=2,ring=4");
  EXPECT_EQ(toml.string("model.name"), "dit");
  EXPECT_EQ(toml.string("model.note"), "");
  EXPECT_EQ(toml.string("quoted"), "a b");
  EXPECT_EQ(toml.string("level[1].name"), "eth");
  EXPECT_EQ(toml.integer("device.\"a100.80\".memory"), 1);
  EXPECT_EQ(toml.string("lines"), "1\nseed=9");  // one value, not two keys
  EXPECT_EQ(toml.integer("seed"), 7);
  EXPECT_EQ(toml.where("train.steps"), "--set train.steps=5");
  EXPECT_EQ(toml.where("train.rate"), "run.toml:4");
  Toml empty;
  empty.set("a.b=1");
  EXPECT_EQ(empty.integer("a.b"), 1);
}

TEST(Toml, ErrorsInOverridesNameTheOverride) {
  Toml toml = Toml::parse(kRun, "run.toml");
  toml.set("train.steps=abc");
  toml.set("model.name=42");
  toml.set("model.extra={x=1}");
  EXPECT_EQ(message_of([&] { toml.integer("train.steps"); }),
            "--set train.steps=abc: train.steps must be an integer, found the string \"abc\" | write an integer there");
  EXPECT_EQ(message_of([&] { toml.string("model.name"); }),
            "--set model.name=42: model.name must be a string, found the integer 42 | put it in quotes: --set "
            "'model.name=\"...\"'");
  EXPECT_EQ(message_of([&] { toml.string("model.extra.x"); }).find("--set model.extra={x=1}: model.extra.x must"), 0u);
  const auto starts = [&](const std::string& assignment, const std::string& expected) {
    const std::string message = message_of([&] { toml.set(assignment); });
    EXPECT_EQ(message.find(expected), 0u) << message << "\n  expected " << expected;
  };
  starts("train.steps", "--set train.steps: there is no value");
  starts("=1", "--set =1: '' is not a key");
  starts("a b=1", "--set a b=1: 'a b' is not a key");
  starts("train.sizes=[1", "--set train.sizes=[1: the value is not TOML");
  starts("train=1", "--set train=1: train is a table");
  starts("seed.x=1", "--set seed.x=1: seed is the integer 7, not a table");
  starts("level[7].name=1", "--set level[7].name=1: there is no table level[7]");
  starts("level[0]=1", "--set level[0]=1: there is no table level[0] to set");
  starts("none[0].name=1", "--set none[0].name=1: there is no none");
  starts("a=\xff", "--set: not UTF-8");
}

TEST(Toml, UnknownOverridesAreFound) {
  Toml toml;
  toml.set("train.stpes=1");
  toml.integer("train.steps", 1);
  EXPECT_EQ(message_of([&] { toml.check_all_used(); }),
            "--set train.stpes=1: unknown key 'train.stpes' | did you mean 'train.steps'?");
}

TEST(Toml, TheTextHoldsOverridesAndReadsBack) {
  Toml toml = Toml::parse(kRun, "run.toml");
  toml.set("train.steps=5");
  const Toml again = Toml::parse(toml.text(), "again.toml");
  EXPECT_EQ(again.integer("train.steps"), 5);
  EXPECT_EQ(again.number("train.rate"), 1e-4);
  EXPECT_EQ(again.string("level[1].name"), "ib");
  EXPECT_EQ(again.integer("device.\"a100.80\".memory"), 40);
}

TEST(Toml, DeepNestingIsAnErrorAndNotACrash) {
  const auto parse = [](const std::string& text) { return message_of([&] { Toml::parse(text, "run.toml"); }); };
  const std::string dotted = repeated("a.", 200000), spaced = repeated("a . ", 200000);
  EXPECT_EQ(parse(fmt::format("\n{}a = 1", dotted)).find("run.toml:2: a key of more than 32 parts"), 0u);
  EXPECT_EQ(parse(fmt::format("[{}a]", spaced)).find("run.toml:1: a key of more than 32 parts"), 0u);
  EXPECT_EQ(parse(fmt::format("a = {}", repeated("[", 200000))).find("run.toml:1: "), 0u);
  EXPECT_EQ(parse(fmt::format("a = {}", repeated("{a=", 200000))).find("run.toml:1: "), 0u);
  // As deep as the parser and the limit on keys let through.
  const std::string wide = repeated(fmt::format("{{{}a=", repeated("a.", 30)), 250);
  EXPECT_EQ(parse(fmt::format("a = {}1{}", wide, repeated("}", 250))).find("run.toml: tables and arrays are nested"),
            0u);
  EXPECT_THROW(Toml().set(fmt::format("{}a=1", dotted)), Error);
  EXPECT_EQ(parse(fmt::format("# {}\nv = '{}'", repeated(".", 100), repeated("1.5, ", 100))), "no error");
}

}  // namespace
}  // namespace reel
