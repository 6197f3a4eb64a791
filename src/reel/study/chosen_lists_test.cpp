#include "reel/study/chosen_lists.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/lists/testing.h"
#include "reel/predict/testing.h"
#include "reel/study/qk_testing.h"

namespace reel::study {
namespace {

using testing::TempFile;
using testing::Tensors;

struct Case {
  Case(const Tensors& tensors, const std::vector<std::int64_t>& grid) : path("chosen_lists_test.safetensors") {
    tensors.write(path.path());
    file.emplace(QkFile::open(path.path()));
    order = file->order(grid, {4, 4, 4});
    in.file = &*file;
    in.order = &order;
  }
  ChosenLists choose() const {
    Threads threads(2);
    return choose_lists(in, threads);
  }
  TempFile path;
  std::optional<QkFile> file;
  lists::TokenOrder order;
  ChooseListsInput in;
};

double mean_mass(const ChosenLists& chosen) {
  const std::vector<double> mass = covered_mass(chosen, query_rows(chosen.lists));
  return std::accumulate(mass.begin(), mass.end(), 0.0) / static_cast<double>(mass.size());
}

// The weights of all keys for a group, mean over its queries, in double precision and the order of the file.
std::vector<double> weights_of(const Tensors& tensors, std::int64_t h, const lists::TokenOrder& order, std::int64_t g) {
  Tensors copy = tensors;
  const std::int64_t tokens = order.tokens(), dim = copy["q"].shape[2];
  std::vector<double> sum(static_cast<std::size_t>(tokens));
  const std::int32_t first = order.group_starts[static_cast<std::size_t>(g)];
  const std::int32_t end = order.group_starts[static_cast<std::size_t>(g) + 1];
  for (std::int32_t i = first; i < end; ++i) {
    const float* q =
        &copy["q"].values[static_cast<std::size_t>((h * tokens + order.raster[static_cast<std::size_t>(i)]) * dim)];
    std::vector<double> p(static_cast<std::size_t>(tokens));
    for (std::int64_t j = 0; j < tokens; ++j) {
      const float* k = &copy["k"].values[static_cast<std::size_t>((h * tokens + j) * dim)];
      p[static_cast<std::size_t>(j)] =
          std::exp(std::inner_product(q, q + dim, k, 0.0) / std::sqrt(static_cast<double>(dim)));
    }
    const double all = std::accumulate(p.begin(), p.end(), 0.0);
    for (std::size_t j = 0; j < p.size(); ++j) sum[j] += p[j] / all / (end - first);
  }
  return sum;
}

TEST(ChosenLists, TrueListsHoldTheHeaviestKeysAndTheOwnTile) {
  const Tensors tensors(2, 5 * 6 * 7, 16);  // ragged tiles, of 64, 48, 32, 24, ... tokens
  Case c(tensors, {5, 6, 7});
  c.in.predictor = "true";
  c.in.keys = 0.4;
  const ChosenLists chosen = c.choose();
  EXPECT_EQ(chosen.lists.order, c.order.raster);
  EXPECT_EQ(chosen.lists.head_dim, 16);
  EXPECT_EQ(chosen.lists.group_starts, c.order.group_starts);
  for (std::int64_t g = 0; g < c.order.groups(); ++g) {
    const std::vector<double> weights = weights_of(tensors, 1, c.order, g);
    const std::set<std::int64_t> keys = lists::testing::tokens_of(chosen.lists, 0, 1, g);
    double least = 1, most = 0;
    for (std::int64_t i = 0; i < 210; ++i) {
      const double weight = weights[static_cast<std::size_t>(c.order.raster[static_cast<std::size_t>(i)])];
      const bool own = i >= c.order.group_starts[static_cast<std::size_t>(g)] &&
                       i < c.order.group_starts[static_cast<std::size_t>(g) + 1];
      EXPECT_TRUE(!own || keys.contains(i));
      if (!own && keys.contains(i)) least = std::min(least, weight);
      if (!own && !keys.contains(i)) most = std::max(most, weight);
    }
    EXPECT_GE(least, most * (1 - 1e-5)) << "group " << g;
    EXPECT_EQ(keys.size(), 84u) << "40 % of 210, the own tile included";
  }
}

TEST(ChosenLists, TheMassTheyCoverIsThatOfDoublePrecision) {
  const Tensors tensors(1, 320, 16);
  Case c(tensors, {});
  const ChosenLists chosen = c.choose();
  double expected = 0;
  for (const std::int32_t g : chosen.seen_groups) {
    const std::vector<double> weights = weights_of(tensors, 0, c.order, g);
    for (const std::int64_t key : lists::testing::tokens_of(chosen.lists, 0, 0, g)) {
      expected += weights[static_cast<std::size_t>(key)] / static_cast<double>(chosen.seen_groups.size());
    }
  }
  EXPECT_NEAR(mean_mass(chosen), expected, 1e-5);
  EXPECT_TRUE(chosen.lists.in_raster_order());
  EXPECT_FALSE(chosen.lists.order.empty()) << "a file without an order is one that does not know it";
}

TEST(ChosenLists, SurviveTheirFile) {
  Case c(Tensors(2, 256, 16), {4, 8, 8});
  c.in.block = 64;
  c.in.keys = 0.5;
  ChosenLists chosen = c.choose();
  chosen.notes["grid"] = "4x8x8";
  const TempFile out("chosen_lists_out.safetensors");
  save(chosen, out.path());
  const ChosenLists again = load_chosen_lists(out.path());
  EXPECT_TRUE(lists::testing::same(again.lists, chosen.lists));
  EXPECT_TRUE(lists::testing::same(lists::load_key_lists(out.path()), chosen.lists)) << "as plain key lists";
  EXPECT_EQ(again.lists.order, chosen.lists.order);
  EXPECT_EQ(again.lists.head_dim, chosen.lists.head_dim);
  EXPECT_EQ(again.notes.at("grid"), "4x8x8");
  EXPECT_NEAR(mean_mass(again), mean_mass(chosen), 1e-3) << "weights are kept in bf16";
  lists::save(chosen.lists, out.path());
  EXPECT_TRUE(covered_mass(load_chosen_lists(out.path()), query_rows(chosen.lists)).empty())
      << "plain lists have no weights";
}

TEST(ChosenLists, AllKeysAreDenseHeads) {
  Case c(Tensors(2, 130, 8), {});
  c.in.keys = 1;
  const ChosenLists chosen = c.choose();
  EXPECT_EQ(chosen.lists.density(), 1);
  EXPECT_NEAR(mean_mass(chosen), 1, 1e-5);
}

TEST(ChosenLists, BadWishesAreNamed) {
  Case c(Tensors(1, 70, 8), {});
  const auto with = [&](double keys, const char* predictor, int block) {
    c.in.keys = keys, c.in.predictor = predictor, c.in.block = block;
    return message_of([&] { c.choose(); });
  };
  EXPECT_NE(with(0, "qk", 1).find("share above 0"), std::string::npos);
  EXPECT_NE(with(NAN, "qk", 1).find("share above 0"), std::string::npos);
  EXPECT_NE(with(0.1, "best", 1).find("known predictors: qk, hidden, true"), std::string::npos);
  EXPECT_NE(with(0.1, "hidden", 1).find("needs the tensor 'hidden'"), std::string::npos);
  EXPECT_NE(with(0.1, "qk", 128).find("use 1 or 64"), std::string::npos);
}

// q and k are linear maps of hidden states, turned by their places: `hidden` must find the keys as the truth does.
// Without the angles it cannot.
TEST(ChosenLists, HiddenStatesFindTheKeysWhereTheyMakeThem) {
  constexpr std::size_t kTokens = 512, kWidth = 24, kDim = 8;
  Tensors tensors(1, kTokens, kDim);
  tensors.add("hidden", {kTokens, kWidth});
  tensors.add("rope_cos", {kTokens, kDim / 2});
  tensors.add("rope_sin", {kTokens, kDim / 2});
  for (const char* name : {"q", "k"}) {
    std::vector<float> map(kWidth * kDim);
    Random(7, name[0]).fill_normal(map);
    for (std::size_t t = 0; t < kTokens; ++t) {
      float* row = &tensors[name].values[t * kDim];
      for (std::size_t d = 0; d < kDim; ++d) {
        row[d] = 0.5f;
        for (std::size_t w = 0; w < kWidth; ++w)
          row[d] += 0.3f * map[d * kWidth + w] * tensors["hidden"].values[t * kWidth + w];
      }
      for (std::size_t i = 0; i < kDim / 2; ++i) {
        const float angle = 0.7f * static_cast<float>(t * (i + 1)), c = std::cos(angle), s = std::sin(angle);
        tensors["rope_cos"].values[t * kDim / 2 + i] = c;
        tensors["rope_sin"].values[t * kDim / 2 + i] = s;
        const float a = row[2 * i], b = row[2 * i + 1];
        row[2 * i] = a * c - b * s;
        row[2 * i + 1] = a * s + b * c;
      }
    }
  }
  Case turned(tensors, {});
  turned.in.keys = 0.25;
  turned.in.predictor = "true";
  const double best = mean_mass(turned.choose());
  turned.in.predictor = "hidden";
  EXPECT_NEAR(mean_mass(turned.choose()), best, 1e-3);
  tensors.remove("rope_cos");
  tensors.remove("rope_sin");
  Case blind(tensors, {});
  blind.in.keys = 0.25;
  blind.in.predictor = "hidden";
  EXPECT_LT(mean_mass(blind.choose()), best - 0.02);
}

}  // namespace
}  // namespace reel::study
