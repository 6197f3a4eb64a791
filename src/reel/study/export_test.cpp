#include "reel/study/export.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "reel/base/testing.h"
#include "reel/study/qk_testing.h"

namespace reel::study {
namespace {

using lists::KeyLists;
using lists::uniform_groups;
using testing::TempFile;

// Lists of every kind, with weights for three of their groups.
ChosenLists lists_of(std::int64_t heads, std::int64_t tokens, std::vector<std::int32_t> group_starts, double share,
                     int granularity = 1) {
  ChosenLists chosen;
  chosen.lists =
      lists::OrderedLists(lists::random_lists(1, heads, tokens, std::move(group_starts), share, granularity, 1));
  const auto last = static_cast<std::int32_t>(chosen.lists.groups() - 1);
  chosen.seen_groups = {0, last / 2, last};
  chosen.weights = Buffer<float>(static_cast<std::size_t>(heads * tokens) * 3);
  Random(4).fill_uniform(chosen.weights);
  for (std::size_t i = 0; i < chosen.weights.size(); i += static_cast<std::size_t>(tokens)) {
    const std::span<float> row = std::span<float>(chosen.weights).subspan(i, static_cast<std::size_t>(tokens));
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (float& x : row) x = static_cast<float>(static_cast<double>(x) / sum);
  }
  return chosen;
}

// [heads][queries][keys] of lists.
using Pairs = std::vector<std::vector<std::vector<char>>>;
Pairs no_pairs(std::int64_t heads, std::int64_t queries, std::int64_t keys) {
  return Pairs(static_cast<std::size_t>(heads),
               std::vector<std::vector<char>>(static_cast<std::size_t>(queries),
                                              std::vector<char>(static_cast<std::size_t>(keys))));
}
Pairs pairs_of(const KeyLists& lists) {
  Pairs pairs = no_pairs(lists.heads, lists.queries(), lists.keys_tokens);
  std::vector<std::int32_t> tokens;
  for (std::int64_t h = 0; h < lists.heads; ++h) {
    for (std::int64_t g = 0; g < lists.groups(); ++g) {
      lists.tokens(0, h, g, tokens);
      for (std::int32_t q = lists.group_starts[static_cast<std::size_t>(g)];
           q < lists.group_starts[static_cast<std::size_t>(g) + 1]; ++q) {
        for (const std::int32_t key : tokens)
          pairs[static_cast<std::size_t>(h)][static_cast<std::size_t>(q)][static_cast<std::size_t>(key)] = 1;
      }
    }
  }
  return pairs;
}
double density(const Pairs& pairs) {
  double sum = 0, all = 0;
  for (const auto& head : pairs) {
    for (const auto& row : head) {
      sum += static_cast<double>(std::count(row.begin(), row.end(), 1));
      all += static_cast<double>(row.size());
    }
  }
  return sum / all;
}
// Mean over heads of what the pairs cover of the known groups.
double mass(const ChosenLists& chosen, const Pairs& pairs) {
  double sum = 0;
  for (std::size_t h = 0; h < pairs.size(); ++h) {
    for (std::size_t i = 0; i < chosen.seen_groups.size(); ++i) {
      const auto g = static_cast<std::size_t>(chosen.seen_groups[i]);
      const std::span<const float> weights = chosen.weights_of(static_cast<std::int64_t>(h), i);
      for (std::int32_t q = chosen.lists.group_starts[g]; q < chosen.lists.group_starts[g + 1]; ++q) {
        for (std::size_t j = 0; j < weights.size(); ++j) {
          if (pairs[h][static_cast<std::size_t>(q)][j] == 0) continue;
          sum += static_cast<double>(weights[j]) / (chosen.lists.group_starts[g + 1] - chosen.lists.group_starts[g]);
        }
      }
    }
  }
  return sum / static_cast<double>(pairs.size() * chosen.seen_groups.size());
}
double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

struct Result {
  Exported out;
  SafetensorsFile file;
};
Result exported(const ChosenLists& chosen, const std::string& to, const std::string& path, std::int64_t rows = 0,
                std::int64_t columns = 0, Fit fit = Fit::kBudget) {
  Exported out = export_lists({&chosen, to, rows, columns, fit, path});
  return {std::move(out), SafetensorsFile::open(path)};
}

// What torch makes of kv_num_blocks and kv_indices.
Pairs flex_pairs(const SafetensorsFile& file, const std::string& prefix = "") {
  const auto num = file.read_i32(prefix + "kv_num_blocks"), index = file.read_i32(prefix + "kv_indices");
  const auto block = file.read_i32("BLOCK_SIZE"), lengths = file.read_i32("seq_lengths");
  const auto shape = file.info(prefix + "kv_indices").shape;
  Pairs pairs = no_pairs(shape[1], lengths[0], lengths[1]);
  for (std::size_t row = 0; row < num.size(); ++row) {
    const std::size_t h = row / static_cast<std::size_t>(shape[2]), r = row % static_cast<std::size_t>(shape[2]);
    const std::int32_t* at = index.data() + row * static_cast<std::size_t>(shape[3]);
    std::set<std::int32_t> all(at, at + shape[3]);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(shape[3])) << "every column once, as torch fills it";
    for (std::int32_t i = 0; i < num[row]; ++i) {
      for (std::int64_t q = static_cast<std::int64_t>(r) * block[0];
           q < std::min<std::int64_t>((static_cast<std::int64_t>(r) + 1) * block[0], lengths[0]); ++q) {
        for (std::int64_t k = std::int64_t{at[i]} * block[1];
             k < std::min<std::int64_t>((at[i] + std::int64_t{1}) * block[1], lengths[1]); ++k) {
          pairs[h][static_cast<std::size_t>(q)][static_cast<std::size_t>(k)] = 1;
        }
      }
    }
  }
  return pairs;
}

TEST(Export, FlexBlocksHoldAboutAsManyPairsAsTheListsAndSayWhatIsLost) {
  const TempFile path("export_test.safetensors");
  const ChosenLists chosen = lists_of(2, 1000, uniform_groups(1000, 64), 0.2);
  for (const auto& [rows, columns] : {std::pair(64, 64), {128, 64}, {128, 128}}) {
    const Result r = exported(chosen, "flex", path.path(), rows, columns);
    const Pairs pairs = flex_pairs(r.file);
    EXPECT_NEAR(density(pairs), r.out.pairs, 1e-9);
    EXPECT_GE(r.out.pairs, r.out.listed_pairs - 0.02);
    EXPECT_LE(r.out.pairs, r.out.listed_pairs + static_cast<double>(columns) / 1000);
    EXPECT_NEAR(mean(r.out.mass), mass(chosen, pairs), 1e-5);
    EXPECT_NEAR(mean(r.out.listed_mass), mass(chosen, pairs_of(chosen.lists)), 1e-5);
    EXPECT_FALSE(r.file.contains("token_mask"));
  }
}

TEST(Export, TilesOfTheListsThatAreTheBlocksLoseNothing) {
  const TempFile path("export_test.safetensors");
  const ChosenLists chosen = lists_of(2, 500, uniform_groups(500, 64), 0.3, 64);
  for (const Fit fit : {Fit::kBudget, Fit::kCover}) {
    const Result r = exported(chosen, "flex", path.path(), 64, 64, fit);
    EXPECT_EQ(flex_pairs(r.file, fit == Fit::kCover ? "full_" : ""), pairs_of(chosen.lists));
    EXPECT_NEAR(mean(r.out.mass), mean(r.out.listed_mass), 1e-9);
    EXPECT_NEAR(r.out.pairs, r.out.listed_pairs, 1e-9);
  }
}

TEST(Export, FlexWithItsTokenMaskIsExact) {
  const TempFile path("export_test.safetensors");
  ChosenLists chosen = lists_of(3, 300, {0, 10, 64, 65, 200, 300}, 0.1);
  chosen.lists.dense_heads[1] = 1;  // one head that looks at all
  KeyLists& l = chosen.lists;
  const std::int64_t begin = l.offsets[5], end = l.offsets[10];
  l.keys.erase(l.keys.begin() + begin, l.keys.begin() + end);
  for (std::size_t i = 6; i < l.offsets.size(); ++i) l.offsets[i] -= i <= 10 ? l.offsets[i] - begin : end - begin;
  l.check();
  const Result r = exported(chosen, "flex", path.path(), 0, 0, Fit::kCover);
  const Pairs partial = flex_pairs(r.file), full = flex_pairs(r.file, "full_"), listed = pairs_of(l);
  const auto mask = r.file.read_u8("token_mask");
  const auto group = r.file.read_i32("group_of_query");
  const std::size_t bytes = 38;
  int wrong = 0, twice = 0;
  for (std::size_t h = 0; h < 3; ++h) {
    for (std::size_t q = 0; q < 300; ++q) {
      for (std::size_t k = 0; k < 300; ++k) {
        const bool bit = (mask[(h * 5 + static_cast<std::size_t>(group[q])) * bytes + k / 8] >> (k % 8) & 1) != 0;
        wrong += (full[h][q][k] != 0 || (partial[h][q][k] != 0 && bit)) != (listed[h][q][k] != 0);
        twice += full[h][q][k] != 0 && partial[h][q][k] != 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(twice, 0);
  EXPECT_NEAR(mean(r.out.mass), mean(r.out.listed_mass), 1e-9);
}

TEST(Export, VsaTilesAreThoseOfTheGridPaddedTo64) {
  const TempFile path("export_test.safetensors");
  // 5 x 6 x 8 tokens in tiles of 4 x 4 x 4: 64, 32 or 16 or 8 tokens.
  const lists::TokenOrder order = lists::tile_order({5, 6, 8}, {4, 4, 4});
  ChosenLists chosen = lists_of(2, 240, order.group_starts, 0.4);
  chosen.lists.order = order.raster;
  for (const Fit fit : {Fit::kBudget, Fit::kCover}) {
    const Result r = exported(chosen, "vsa", path.path(), 0, 0, fit);
    const auto sizes = r.file.read_i32("variable_block_sizes"), num = r.file.read_i32("q2k_num");
    const auto index = r.file.read_i32("q2k_idx");
    const auto places = r.file.read_i64("non_pad_index");
    EXPECT_EQ(sizes, (std::vector<std::int32_t>{64, 64, 32, 32, 16, 16, 8, 8}));
    EXPECT_EQ(r.file.read_i64("order"), std::vector<std::int64_t>(order.raster.begin(), order.raster.end()));
    EXPECT_EQ(places[63], 63);
    EXPECT_EQ(places[128], 128);
    EXPECT_EQ(places[160], 192) << "the third tile has 32 of 64 places";
    const auto shape = r.file.info("q2k_idx").shape;
    ASSERT_EQ(shape, (std::vector<std::int64_t>{1, 2, 8, shape[3]}));
    Pairs pairs = no_pairs(2, 240, 240);
    int twice = 0, missing = 0;
    for (std::size_t row = 0; row < num.size(); ++row) {
      EXPECT_GE(num[row], 1);
      for (std::int32_t i = 0; i < num[row]; ++i) {
        const auto tile =
            static_cast<std::size_t>(index[row * static_cast<std::size_t>(shape[3]) + static_cast<std::size_t>(i)]);
        for (std::int32_t q = order.group_starts[row % 8]; q < order.group_starts[row % 8 + 1]; ++q) {
          for (std::int32_t k = order.group_starts[tile]; k < order.group_starts[tile + 1]; ++k) {
            twice += pairs[row / 8][static_cast<std::size_t>(q)][static_cast<std::size_t>(k)];
            pairs[row / 8][static_cast<std::size_t>(q)][static_cast<std::size_t>(k)] = 1;
          }
        }
      }
    }
    EXPECT_NEAR(mean(r.out.mass), mass(chosen, pairs), 1e-5);
    EXPECT_NEAR(r.out.pairs, density(pairs), 1e-9);
    if (fit == Fit::kCover) {
      const Pairs listed = pairs_of(chosen.lists);
      for (std::size_t q = 0; q < 240; ++q) {
        for (std::size_t k = 0; k < 240; ++k) missing += listed[0][q][k] > pairs[0][q][k];
      }
    }
    EXPECT_EQ(twice, 0);
    EXPECT_EQ(missing, 0);
  }
}

// Short tiles at the edges of a grid: what is listed as a whole comes first, however small.
TEST(Export, AShortTileThatIsListedIsKept) {
  const TempFile path("export_test.safetensors");
  ChosenLists chosen;
  lists::KeyListsBuilder builder(1, 1, 136, {0, 64, 128, 136});
  std::vector<std::int32_t> list = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21};  // eleven of the first, all of the last
  for (std::int32_t key = 128; key < 136; ++key) list.push_back(key);
  for (int g = 0; g < 3; ++g) builder.add(list);
  chosen.lists = lists::OrderedLists(builder.finish());
  const Result r = exported(chosen, "vsa", path.path());
  EXPECT_EQ(r.file.read_i32("q2k_idx"), (std::vector<std::int32_t>{0, 2, 0, 2, 0, 2}));
}

TEST(Export, DsvListsAreFilledToWhatItsKernelReads) {
  const TempFile path("export_test.safetensors");
  for (const bool ragged : {false, true}) {
    const ChosenLists chosen =
        lists_of(2, 1100, ragged ? std::vector<std::int32_t>{0, 50, 700, 1100} : uniform_groups(1100, 96), 0.2);
    const Result r = exported(chosen, "dsv", path.path());
    const auto index = r.file.read_i32("kv_index"), topk = r.file.read_i32("topk_per_head");
    const std::int32_t group = r.file.read_i32("query_group_size")[0];
    EXPECT_EQ(group, ragged ? 64 : 96);
    const auto shape = r.file.info("kv_index").shape;
    const Pairs listed = pairs_of(chosen.lists);
    for (std::size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(topk[h] % 256, 0);
      for (std::int64_t g = 0; g < shape[2]; ++g) {
        const std::int32_t* at = index.data() + (static_cast<std::int64_t>(h) * shape[2] + g) * shape[3];
        std::vector<char> has(1100);
        for (std::int32_t i = 0; i < topk[h]; ++i) has[static_cast<std::size_t>(at[i])] = 1;
        EXPECT_EQ(std::count(has.begin(), has.end(), 1), topk[h]) << "a key twice";
        int missing = 0;
        for (std::int64_t q = g * group; q < std::min<std::int64_t>((g + 1) * group, 1100); ++q) {
          for (std::size_t k = 0; k < 1100; ++k) missing += listed[h][static_cast<std::size_t>(q)][k] > has[k];
        }
        EXPECT_EQ(missing, 0);
      }
    }
    EXPECT_GE(mean(r.out.mass), mean(r.out.listed_mass) - 1e-9);
  }
}

TEST(Export, DsvCutsWhatIsBeyondTheLastMultiple) {
  const TempFile path("export_test.safetensors");
  ChosenLists chosen;
  chosen.lists = lists::OrderedLists(lists::dense_lists(1, 1, 300, 300));
  const Result r = exported(chosen, "dsv", path.path());
  EXPECT_EQ(r.file.read_i32("topk_per_head"), std::vector<std::int32_t>{256});
  EXPECT_TRUE(r.out.mass.empty()) << "nobody knows the weights";
}

TEST(Export, MasksAreOfHeadsRowsAndColumns) {
  const TempFile path("export_test.safetensors");
  const ChosenLists chosen = lists_of(2, 300, uniform_groups(300, 64), 0.3, 64);
  const Result r = exported(chosen, "mask", path.path());
  EXPECT_EQ(r.file.info("mask").shape, (std::vector<std::int64_t>{2, 5, 5}));
  EXPECT_EQ(r.file.info("mask").dtype, Dtype::kBool);
  const auto mask = r.file.read_u8("mask");
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t g = 0; g < 5; ++g) {
      const auto list = chosen.lists.list(0, h, g);
      for (std::int32_t c = 0; c < 5; ++c) {
        EXPECT_EQ(mask[static_cast<std::size_t>((h * 5 + g) * 5 + c)] != 0,
                  std::find(list.begin(), list.end(), c) != list.end());
      }
    }
  }
  EXPECT_EQ(exported(chosen, "mask", path.path(), 128, 64).file.info("mask").shape,
            (std::vector<std::int64_t>{2, 3, 5}));
}

TEST(Export, RefusesWhatAKernelCannotDo) {
  const TempFile path("export_test.safetensors");
  const auto refused = [&](const ChosenLists& chosen, const char* to) {
    return message_of([&] { exported(chosen, to, path.path()); });
  };
  ChosenLists empty;
  empty.lists = lists::OrderedLists(lists::random_lists(1, 1, 300, uniform_groups(300, 64), 0, 1, 1));
  for (const char* to : {"flex", "vsa", "dsv", "mask"}) {
    EXPECT_NE(refused(empty, to).find("all key lists are empty"), std::string::npos) << to;
  }
  ChosenLists hole;
  lists::KeyListsBuilder builder(1, 1, 300, uniform_groups(300, 150));
  builder.add(std::vector<std::int32_t>{3});
  builder.add({});
  hole.lists = lists::OrderedLists(builder.finish());
  EXPECT_NE(refused(hole, "vsa").find("query block 1 of head 0 has no keys"), std::string::npos);
  EXPECT_NE(refused(lists_of(1, 600, uniform_groups(600, 300), 0.1), "vsa").find("at most 256"), std::string::npos);
  EXPECT_NE(refused(lists_of(1, 100, uniform_groups(100, 64), 0.1), "dsv").find("256 keys at a time"),
            std::string::npos);
}

}  // namespace
}  // namespace reel::study
