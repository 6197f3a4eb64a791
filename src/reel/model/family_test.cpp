#include "reel/model/family.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "reel/model/testing.h"

namespace reel::model {
namespace {

TEST(Families, EveryNameAndEveryClassBelongsToOne) {
  std::set<std::string> names, classes;
  for (const Family* family : families()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    EXPECT_EQ(&family_of({.family = family->name}), family);
    for (const ConfigClass& each : family->classes) EXPECT_TRUE(classes.insert(each.name).second) << each.name;
  }
}

// What is written down for a checkpoint has to find the way back to the family.
TEST(Families, WriteAClassOfTheirOwn) {
  for (const Family* family : families()) {
    const std::string name = family->config_json(testing::small(family->name))["_class_name"];
    bool own = false;
    for (const ConfigClass& each : family->classes) own |= each.name == name;
    EXPECT_TRUE(own) << family->name << ": " << name;
  }
}

TEST(Families, ThoseWithFullAttentionCannotSwitchBetweenAxes) {
  for (const Family* family : families()) {
    const ModelConfig c = testing::small(family->name);
    SCOPED_TRACE(family->name);
    if (family->full_attention) {
      EXPECT_THROW(check_plan(c, layout::parse_degrees("dsp=2")), Error);
    } else {
      EXPECT_NO_THROW(check_plan(c, layout::parse_degrees("dsp=2")));
    }
    EXPECT_NO_THROW(check_plan(c, layout::parse_degrees("ulysses=2")));
  }
}

}  // namespace
}  // namespace reel::model
