#include "reel/app/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "reel/app/plan_input.h"
#include "reel/app/testing.h"
#include "reel/base/testing.h"
#include "reel/cost/machine.h"
#include "reel/files/file.h"
#include "reel/files/safetensors.h"
#include "reel/kernels/cpu.h"
#include "reel/plan/samples.h"

namespace reel::app {
namespace {

using testing::Result;

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Plan : public ::testing::Test {
 protected:
  Plan() : folder_(::testing::TempDir() + "reel_plan") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Plan() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string mask_file(const std::string& name, const std::vector<std::uint8_t>& mask,
                        const std::vector<std::int64_t>& shape, Dtype dtype = Dtype::kBool) const {
    SafetensorsWriter writer;
    writer.add("mask", shape, std::span(mask), dtype);
    writer.write(path(name));
    return path(name);
  }

  static Result run_plan(std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    return testing::reel(words);
  }
  static void expect_error(const std::vector<std::string>& words, const std::string& text) {
    const Result result = run_plan(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err << "\n  expected " << text;
  }

  std::string folder_;
};

// 12 heads of different density, 20 x 28 blocks.
std::vector<std::uint8_t> uneven_mask() {
  std::vector<std::uint8_t> mask;
  for (int h = 0; h < 12; ++h) {
    for (int r = 0; r < 20; ++r) {
      for (int c = 0; c < 28; ++c) mask.push_back((r * 7 + c * 3 + h) % 13 <= h || c < h / 3 ? 1 : 0);
    }
  }
  return mask;
}

// rho_s of plan.json and the mask, with nothing of the planner.
double rho_of(const Json& plan, const std::vector<std::uint8_t>& mask, int rows, int columns) {
  const int ring = plan["ring"];
  std::map<int, std::map<std::pair<int, int>, double>> work;  // step -> rank -> blocks
  double all = 0;
  for (int u = 0; u < plan["ulysses"]; ++u) {
    for (const int head : plan["heads"][static_cast<std::size_t>(u)]) {
      for (int i = 0; i < ring; ++i) {
        for (const int row : plan["rows"][static_cast<std::size_t>(u)][static_cast<std::size_t>(i)]) {
          for (int j = 0; j < ring; ++j) {
            for (const int column : plan["keys"][static_cast<std::size_t>(u)][static_cast<std::size_t>(j)]) {
              const double on = mask[static_cast<std::size_t>((head * rows + row) * columns + column)];
              work[(j - i + ring) % ring][{u, i}] += on;
              all += on;
            }
          }
        }
      }
    }
  }
  double time = 0;
  for (const auto& [step, ranks] : work) {
    double most = 0;
    for (const auto& [rank, blocks] : ranks) most = std::max(most, blocks);
    time += most;
  }
  double sum = 0;  // everything was dealt
  for (const std::uint8_t on : mask) sum += on;
  EXPECT_EQ(all, sum);
  return time / (all / plan["ranks"].get<double>());
}

TEST_F(Plan, PlanFileSaysWhoComputesWhatAndItsImbalance) {
  const std::vector<std::uint8_t> mask = uneven_mask();
  const std::string file = mask_file("mask.safetensors", mask, {12, 20, 28});
  for (const auto& [ulysses, ring] : {std::pair("4", "2"), {"1", "8"}, {"8", "1"}, {"2", "4"}}) {
    const Result result = run_plan({"partition", file, "--ranks", "8", "--ulysses", ulysses, "--ring", ring, "--json",
                                    path("plan.json"), "--report", path("plan.html")});
    ASSERT_EQ(result.code, 0) << result.err;
    const Json plan = Json::parse(read_file(path("plan.json")));
    std::vector<std::string> keys;
    const auto ordered = nlohmann::ordered_json::parse(read_file(path("plan.json")));
    for (auto it = ordered.begin(); it != ordered.end(); ++it) keys.push_back(it.key());
    EXPECT_EQ(keys, (std::vector<std::string>{"ranks", "ulysses", "ring", "heads", "rows", "keys", "rho",
                                              "rho_no_barrier", "rho_contiguous", "moved_bytes", "plan_seconds"}));
    EXPECT_EQ(plan["ranks"], 8);
    EXPECT_NEAR(plan["rho"].get<double>(), rho_of(plan, mask, 20, 28), 1e-5);
    EXPECT_LE(plan["rho_no_barrier"], plan["rho"].get<double>() + 1e-9);
    EXPECT_LT(plan["rho"], plan["rho_contiguous"]);
    EXPECT_GE(plan["plan_seconds"], 0);
    EXPECT_NE(read_file(path("plan.html")).find("Who computes what"), std::string::npos);
  }
}

TEST_F(Plan, DegreesThatAreNotGivenAreChosen) {
  const std::string file = mask_file("mask.safetensors", uneven_mask(), {1, 12, 20, 28}, Dtype::kU8);
  ASSERT_EQ(run_plan({"partition", file, "--ranks", "6", "--json", path("plan.json")}).code, 0);
  Json plan = Json::parse(read_file(path("plan.json")));
  EXPECT_EQ(plan["ulysses"].get<int>() * plan["ring"].get<int>(), 6);
  EXPECT_LE(plan["rho"], 1.02);
  ASSERT_EQ(run_plan({"partition", file, "--ranks", "6", "--ring", "3", "--json", path("plan.json")}).code, 0);
  plan = Json::parse(read_file(path("plan.json")));
  EXPECT_EQ(plan["ulysses"], 2);
}

TEST_F(Plan, KeyListsAreTaken) {
  lists::save(lists::OrderedLists(lists::random_lists(1, 6, 1000, lists::uniform_groups(1000, 64), 0.1, 1, 1)),
              path("lists"));
  const Result result =
      run_plan({"partition", path("lists"), "--ranks", "3", "--exchange", "gather", "--json", path("plan.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json plan = Json::parse(read_file(path("plan.json")));
  EXPECT_LE(plan["rho_no_barrier"], 1.02);
}

TEST_F(Plan, TheHeadDimensionIsThatOfTheLists) {
  const lists::KeyLists plain = lists::random_lists(1, 6, 128, lists::uniform_groups(128, 64), 0.1, 1, 1);
  std::vector<std::int32_t> order(128);
  std::iota(order.begin(), order.end(), 0);
  lists::save(lists::OrderedLists(plain, order, 64), path("64"));
  lists::save(lists::OrderedLists(plain), path("none"));
  const auto compare = [&](const std::string& file, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"compare", path(file), "--ranks", "2", "--cluster", "h100-ndr400"});
    return run_plan(more);
  };
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != text.npos; };
  Result result = compare("64");
  EXPECT_TRUE(has(result.out, "head dimension 64,")) << result.out;
  EXPECT_EQ(result.err, "");
  result = compare("none");
  EXPECT_TRUE(has(result.out, "head dimension 128,")) << result.out;
  EXPECT_EQ(result.err, "reel: " + path("none") +
                            ": there is no tensor 'order': tokens are taken to be in raster order\n" +
                            "reel: " + path("none") + ": head_dim is not in it: 128 is assumed (--head-dim)\n");
  result = compare("none", {"--head-dim", "96"});
  EXPECT_TRUE(has(result.out, "head dimension 96,")) << result.out;
  EXPECT_FALSE(has(result.err, "assumed")) << result.err;
  EXPECT_EQ(compare("64", {"--head-dim", "64"}).code, 0);
  expect_error({"partition", path("64"), "--ranks", "2", "--head-dim", "128"},
               "--head-dim is 128, but " + path("64") + " is of heads of 64 floats");
}

TEST_F(Plan, StepsAreOfTheSameTokens) {
  const lists::KeyLists plain = lists::random_lists(1, 6, 128, lists::uniform_groups(128, 64), 0.3, 1, 1);
  std::vector<std::int32_t> order(128);
  std::iota(order.begin(), order.end(), 0);
  const auto step = [&](int i, const std::vector<std::int32_t>& tokens, std::int64_t head_dim) {
    lists::save(lists::OrderedLists(plain, tokens, head_dim), path(fmt::format("step-{}", i)));
  };
  const std::vector<std::string> words = {"steps", path("step-*"), "--ranks", "2"};
  step(0, {}, 0);
  step(1, order, 128);
  step(2, {}, 0);
  const Result result = run_plan(words);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err.find("step-2"), std::string::npos) << "what is assumed is said once";
  step(2, order, 64);
  expect_error(words, path("step-2") + " is of heads of 64 floats, " + path("step-1") + " of 128");
  std::reverse(order.begin(), order.end());
  step(2, order, 128);
  expect_error(words, path("step-2") + ": tokens are in another order than in " + path("step-1"));
}

TEST_F(Plan, AMachineFileOfAnotherCpuIsNamedAndNotUsed) {
  lists::save(lists::OrderedLists(lists::random_lists(1, 6, 1000, lists::uniform_groups(1000, 64), 0.1, 1, 1)),
              path("lists"));
  setenv("REEL_MACHINE", path("machine.toml").c_str(), 1);
  const auto first_lines = [&](const char* verb, const std::string& cpu, const std::string& target) {
    cost::Machine machine = cost::describe_this_machine();
    machine.cpu = cpu, machine.target = target;
    machine.threads = 1;
    machine.peak_one = machine.peak_all = 1e11;
    cost::save(machine, path("machine.toml"));
    const Result result = run_plan({verb, path("lists"), "--ranks", "2"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  const std::string cpu = cost::describe_this_machine().cpu, target = kernels::target();
  for (const char* verb : {"partition", "steps"}) {
    EXPECT_NE(first_lines(verb, cpu, target).find("x keys ns, on this machine"), std::string::npos) << verb;
    const std::string other = first_lines(verb, "Another CPU", target), older = first_lines(verb, cpu, "mmx");
    EXPECT_NE(other.find("the number of keys (" + path("machine.toml") + " is of another CPU: Another CPU, " + target +
                         "; this is " + cpu),
              std::string::npos)
        << other;
    EXPECT_NE(other.find("reel doctor --measure"), std::string::npos) << other;
    EXPECT_NE(older.find("is of another CPU: " + cpu + ", mmx; this is "), std::string::npos) << older;
  }
  unsetenv("REEL_MACHINE");
}

TEST_F(Plan, StepsKeepAPlanWhileItIsGood) {
  for (int step = 0; step < 12; ++step) {
    lists::save(lists::OrderedLists(plan::video_lists(plan::Kind::kMixed, 12, 24, 1, step / 60.0)),
                path(fmt::format("step-{}.layer-7.safetensors", step)));
  }
  const Result result = run_plan({"steps", path("step-*.layer-7.safetensors"), "--ranks", "4", "--limit", "1.1",
                                  "--json", path("steps.json"), "--report", path("steps.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json steps = Json::parse(read_file(path("steps.json")));
  ASSERT_EQ(steps["steps"].size(), 12u);
  EXPECT_EQ(fs::path(steps["steps"][2]["file"].get<std::string>()).filename(), "step-2.layer-7.safetensors");
  EXPECT_LE(steps["mean_rho"], 1.1);
  EXPECT_LT(steps["plans"], 12);
  // A file of another model among them.
  lists::save(lists::OrderedLists(plan::video_lists(plan::Kind::kMixed, 8, 24, 1)),
              path("step-13.layer-7.safetensors"));
  expect_error({"steps", path("step-*.layer-7.safetensors"), "--ranks", "4"}, "step-13.layer-7.safetensors: 8 heads");
  expect_error({"steps", path("nothing-*"), "--ranks", "4"}, "no file matches");
}

TEST_F(Plan, ComparePricesEveryStrategy) {
  lists::save(lists::OrderedLists(plan::video_lists(plan::Kind::kMixed, 8, 64, 1)), path("lists"));
  const std::string cluster = REEL_SOURCE_DIR "/clusters/h100-ndr400.toml";
  const Result result = run_plan({"compare", path("lists"), "--ranks", "8", "--cluster", cluster, "--json",
                                  path("compare.json"), "--report", path("compare.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(read_file(path("compare.json")));
  EXPECT_EQ(json["strategies"].size(), 7u);  // 1, 2, 4 groups of heads twice, and 8
  for (const Json& s : json["strategies"]) {
    const double parts = s["compute_seconds"].get<double>() + s["waiting_seconds"].get<double>() +
                         s["heads_seconds"].get<double>() + s["rows_seconds"].get<double>() +
                         s["keys_seconds"].get<double>();
    EXPECT_NEAR(s["seconds"].get<double>(), parts, 1e-12);
  }
  EXPECT_FALSE(json["why"].empty());
  EXPECT_NE(read_file(path("compare.html")).find("Where the time goes"), std::string::npos);
  expect_error({"compare", path("lists"), "--ranks", "8"}, "--cluster");
  expect_error({"compare", path("lists"), "--ranks", "8", "--cluster", "/no/such.toml"}, "/no/such.toml");
  expect_error({"compare", path("lists"), "--ranks", "9", "--cluster", cluster}, "9 ranks do not fill nodes of 8");
  for (const char* memory : {"0", "-1", "nan"})
    expect_error({"compare", path("lists"), "--ranks", "8", "--cluster", cluster, "--memory", memory}, "--memory is");
}

TEST_F(Plan, MistakesAreExplained) {
  const std::string file = mask_file("mask.safetensors", uneven_mask(), {12, 20, 28});
  expect_error({"partition", file, "--ranks", "0"}, "--ranks is 0");
  expect_error({"partition", file, "--ranks", "-3"}, "--ranks is -3");
  expect_error({"partition", file}, "--ranks");
  expect_error({"partition", file, "--ranks", "8", "--ulysses", "3"}, "1 x 8, 2 x 4, 4 x 2, 8 x 1");
  expect_error({"partition", file, "--ranks", "8", "--ulysses", "4", "--ring", "4"},
               "ulysses 4 x ring 4 is not 8 ranks");
  expect_error({"partition", file, "--ranks", "8", "--ulysses", "-2", "--ring", "-4"}, "at least 1");
  expect_error({"partition", file, "--ranks", "8", "--ring", "0"}, "--ring is 0");
  expect_error({"partition", file, "--ranks", "8", "--limit", "0.5"}, "--limit is 0.5");
  expect_error({"partition", file, "--ranks", "8", "--head-dim", "0"}, "--head-dim: it is 0");
  expect_error({"partition", file, "--ranks", "8", "--exchange", "pigeon"}, "pigeon");
  expect_error({"partition", path("none"), "--ranks", "8"}, "none");
  const std::vector<std::uint8_t> zeros(12, 0), twos(12, 2);
  expect_error({"partition", mask_file("a", zeros, {1, 3, 4}), "--ranks", "2"}, "no query attends to any key");
  expect_error({"partition", mask_file("b", zeros, {3, 4}), "--ranks", "2"}, "mask has 2 dimensions (3 x 4)");
  expect_error({"partition", mask_file("c", {}, {0, 3, 4}), "--ranks", "2"}, "mask is 0 x 3 x 4, which is empty");
  expect_error({"partition", mask_file("d", twos, {1, 3, 4}, Dtype::kU8), "--ranks", "2"},
               "mask holds 2 for head 0, query block 0, key block 0");
  expect_error({"partition", mask_file("e", zeros, {2, 1, 2, 3}), "--ranks", "2"}, "mask has 4 dimensions");
  SafetensorsWriter floats;
  const std::vector<float> values(12, NAN);
  floats.add("mask", {1, 3, 4}, std::span(values));
  floats.write(path("f"));
  expect_error({"partition", path("f"), "--ranks", "2"}, "mask is F32");
  SafetensorsWriter other;
  other.add("q", {1, 3, 4}, std::span(values));
  other.write(path("g"));
  expect_error({"partition", path("g"), "--ranks", "2"}, "neither key lists nor a mask (it holds q)");
}

TEST_F(Plan, StepsAreSortedByTheirNumbers) {
  for (const char* name : {"step-10", "step-9", "step-009b", "other-1"}) write_file_atomically(path(name), "x");
  const std::vector<std::string> files = matching_files({path("step-*"), path("other-*")});
  EXPECT_EQ(files, (std::vector<std::string>{path("other-1"), path("step-9"), path("step-009b"), path("step-10")}));
}

}  // namespace
}  // namespace reel::app
