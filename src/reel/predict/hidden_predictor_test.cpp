#include "reel/predict/hidden_predictor.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reel/base/testing.h"
#include "reel/kernels/testing.h"
#include "reel/predict/hidden_testing.h"

namespace reel::predict {
namespace {

using kernels::testing::expect_same_bits;
using testing::Found;
using testing::WanLayer;

// low_q and low_k of two heads, of some tokens.
struct Predicted {
  std::vector<std::int32_t> rows = {7, 3, 99, 99};
  std::vector<std::int64_t> heads = {1, 0};
  std::vector<float> q, k;

  Predicted(const Predictor& predictor, const Seen& seen, std::int64_t rank, Threads& threads) {
    q.assign(static_cast<std::size_t>(seen.batch * 2 * 4 * rank), 1e9f);  // whatever is not written is seen
    k.assign(static_cast<std::size_t>(seen.batch * 2 * seen.tokens * rank), 1e9f);
    predictor.predict(seen, heads, rows, rank, q.data(), k.data(), threads);
  }
};

void expect_same(const Predicted& a, const Predicted& b) {
  expect_same_bits(a.q, b.q);
  expect_same_bits(a.k, b.k);
}

TEST(HiddenPredictor, AtFullRankBeginsWithTheTrueScores) {
  WanLayer layer(2, 16, 1);
  const auto clip = layer.clip(1, 2);
  HiddenPredictor predictor(layer.shape, 16, 1);
  EXPECT_FALSE(predictor.knows(0));
  predictor.learn(clip->seen, false, layer.threads);
  EXPECT_TRUE(predictor.knows(0));
  for (const std::int64_t rank : {16, 20}) {  // zeros beyond the rank
    const Predicted low(predictor, clip->seen, rank, layer.threads);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t r = 0; r < 4; ++r) {
          const std::int64_t h = low.heads[static_cast<std::size_t>(i)], width = 32, n = WanLayer::kTokens;
          const float* q = clip->seen.q + (b * n + low.rows[static_cast<std::size_t>(r)]) * width + h * 16;
          const float* low_q = low.q.data() + ((b * 2 + i) * 4 + r) * rank;
          for (std::int64_t j = 0; j < n; ++j) {
            const float* k = clip->seen.k + (b * n + j) * width + h * 16;
            const float* low_k = low.k.data() + ((b * 2 + i) * n + j) * rank;
            // Scores go up to 80; there is nothing to learn but roundings.
            ASSERT_NEAR(std::inner_product(low_q, low_q + rank, low_k, 0.0f), std::inner_product(q, q + 16, k, 0.0f),
                        2e-2);
          }
        }
      }
    }
  }
}

// Each head's q and k, projected on 16 directions that nobody chose.
class RandomProjection final : public Predictor {
 public:
  explicit RandomProjection(const ModelHeads& shape)
      : Predictor(shape), projection_(static_cast<std::size_t>(kRank * shape.head_dim)) {
    Random(11).fill_normal(projection_);
  }
  bool knows(int) const override { return true; }
  std::int64_t rank(int, std::int64_t) const override { return kRank; }
  void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows, std::int64_t,
               float* low_q, float* low_k, Threads&) const override {
    for (const std::int64_t h : heads) {
      for (const std::int32_t row : rows) low_q = project(seen.q, row, h, low_q);
      for (std::int64_t t = 0; t < seen.tokens; ++t) low_k = project(seen.k, t, h, low_k);
    }
  }
  bool learns_always() const override { return false; }
  Wanted wants(const Origin*, int, std::int64_t, bool) const override { return {}; }
  void learn_from(const Lesson&, Threads&) override {}
  std::vector<Saved> save() const override { return {}; }
  void load(const SafetensorsFile&) override {}

 private:
  static constexpr std::int64_t kRank = 16;
  float* project(const float* x, std::int64_t token, std::int64_t head, float* out) const {
    const float* from = x + (token * shape_.heads + head) * shape_.head_dim;
    for (std::int64_t r = 0; r < kRank; ++r) {
      *out++ = std::inner_product(from, from + shape_.head_dim, projection_.data() + r * shape_.head_dim, 0.0f);
    }
    return out;
  }
  std::vector<float> projection_;
};

TEST(HiddenPredictor, LearnsToFindTheKeys) {
  WanLayer layer(4, 32, 2);
  HiddenPredictor predictor(layer.shape, 16, 1);
  const auto other = layer.clip(1000);
  predictor.learn(layer.clip(0)->seen, true, layer.threads);
  const Found first = layer.found(predictor, *other);
  for (std::uint64_t i = 1; i < 60; ++i) predictor.learn(layer.clip(i)->seen, i % 5 == 0, layer.threads);
  const Found last = layer.found(predictor, *other);
  const Found blind = layer.found(RandomProjection(layer.shape), *other);
  // Recall .58, .72, .84 and mass .85, .93, .98.
  EXPECT_GT(first.recall, blind.recall + 0.1);
  EXPECT_GT(first.mass, blind.mass + 0.05);
  EXPECT_GT(last.recall, first.recall + 0.08);
  EXPECT_GT(last.mass, 0.96);
  EXPECT_GT(last.mass, first.mass + 0.02);
}

const std::vector<float>& values_of(const std::vector<Predictor::Saved>& saved, const std::string& name) {
  return std::find_if(saved.begin(), saved.end(), [&](const auto& each) { return each.name == name; })->values;
}

TEST(HiddenPredictor, BeginsWithNumbersOfTheSizeOfThePickedOnes) {
  WanLayer layer(2, 32, 1);
  const auto clip = layer.clip(1);
  HiddenPredictor predictor(layer.shape, 8, 1);
  predictor.learn(clip->seen, false, layer.threads);
  const auto saved = predictor.save();
  const std::vector<float>& picked = values_of(saved, "hidden.0.picked");
  const Predicted low(predictor, clip->seen, 8, layer.threads);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t h = low.heads[i];
    double wanted = 0, got = 0;
    for (std::int64_t t = 0; t < WanLayer::kTokens; ++t) {
      for (std::int64_t r = 0; r < 8; ++r) {
        const auto number = static_cast<std::int64_t>(picked[static_cast<std::size_t>(h * 8 + r)]);
        wanted += std::pow(static_cast<double>(clip->seen.k[(t * 2 + h) * 32 + number]), 2);
        got += std::pow(
            static_cast<double>(
                low.k[(i * WanLayer::kTokens + static_cast<std::size_t>(t)) * 8 + static_cast<std::size_t>(r)]),
            2);
      }
    }
    EXPECT_NEAR(got / wanted, 1, 0.1);  // one update was made; with no gain it is 0.8
  }
}

TEST(HiddenPredictor, PairsThatAreExchangedBeginAnew) {
  WanLayer layer(2, 32, 0), other(2, 32, 0, 2);
  HiddenPredictor predictor(layer.shape, 8, 1);
  std::size_t exchanged = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {  // the model changes, and what counts in it
    const auto clip = i < 4 ? layer.clip(i) : other.clip(i);
    const auto before = predictor.save();
    predictor.learn(clip->seen, true, layer.threads);
    const auto after = predictor.save();
    if (i == 0) continue;
    for (std::size_t place = 0; place < 16; ++place) {
      const bool same = values_of(before, "hidden.0.picked")[place] == values_of(after, "hidden.0.picked")[place];
      exchanged += same ? 0 : 1;
      for (const char* name : {"hidden.0.learnt", "hidden.0.first", "hidden.0.second"}) {
        for (const std::size_t side : {0u, 16u}) {
          const float* row = values_of(after, name).data() + (side + place) * 66;
          EXPECT_EQ(std::all_of(row, row + 65, [](float x) { return x == 0; }), !same) << name;
        }
      }
    }
  }
  EXPECT_GT(exchanged, 2u);
}

TEST(HiddenPredictor, FollowsTheWeightsOfTheModel) {
  WanLayer before(2, 32, 0, 1), after(2, 32, 0, 2);
  HiddenPredictor predictor(before.shape, 32, 1);
  predictor.learn(before.clip(0)->seen, true, before.threads);
  EXPECT_GT(after.found(predictor, *after.clip(1)).recall, 0.9);
}

TEST(HiddenPredictor, SavedAndLoadedGoesOnWithTheSameBits) {
  const std::string path = ::testing::TempDir() + "reel_hidden_predictor.safetensors";
  WanLayer layer(2, 16, 1);
  const ModelHeads shape{2, 2, 16};
  HiddenPredictor saved(shape, 6, 1), loaded(shape, 6, 1);
  const auto on_second = [](Seen seen) { return seen.layer = 1, seen; };
  for (std::uint64_t i = 0; i < 3; ++i) saved.learn(on_second(layer.clip(i)->seen), true, layer.threads);
  const auto tensors = saved.save();
  SafetensorsWriter writer;
  for (const auto& each : tensors) {
    EXPECT_EQ(each.name.find("hidden."), 0u);
    writer.add(each.name, each.shape, each.values);
  }
  writer.write(path);
  loaded.load(SafetensorsFile::open(path));
  EXPECT_FALSE(loaded.knows(0));
  EXPECT_TRUE(loaded.knows(1));
  const auto clip = layer.clip(9);
  for (int more = 0; more < 3; ++more) {
    expect_same(Predicted(saved, on_second(clip->seen), 6, layer.threads),
                Predicted(loaded, on_second(clip->seen), 6, layer.threads));
    for (HiddenPredictor* each : {&saved, &loaded}) each->learn(on_second(clip->seen), true, layer.threads);
  }
  const auto now = saved.save(), also = loaded.save();
  for (std::size_t i = 0; i < now.size(); ++i) expect_same_bits(now[i].values, also[i].values);
  HiddenPredictor other_rank(shape, 8, 1), other_model({3, 2, 16}, 6, 1);
  for (HiddenPredictor* each : {&other_rank, &other_model}) {
    const std::string message = message_of([&] { each->load(SafetensorsFile::open(path)); });
    EXPECT_NE(message.find("has no predictor from hidden states"), std::string::npos) << message;
  }
  std::filesystem::remove(path);
}

TEST(HiddenPredictor, SameBitsForAnyNumberOfThreads) {
  WanLayer layer(3, 32, 1);
  Threads one(1), three(3);
  HiddenPredictor a(layer.shape, 16, 1), b(layer.shape, 16, 1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto clip = layer.clip(i);
    a.learn(clip->seen, true, one);
    b.learn(clip->seen, true, three);
  }
  const auto clip = layer.clip(7, 2);
  expect_same(Predicted(a, clip->seen, 16, one), Predicted(b, clip->seen, 16, three));
}

TEST(HiddenPredictor, ClipsThatAreNotFiniteTeachNothing) {
  WanLayer layer(2, 16, 0);
  HiddenPredictor predictor(layer.shape, 8, 1);
  const auto spoilt = layer.clip(0, 1, true);
  predictor.learn(spoilt->seen, true, layer.threads);
  EXPECT_FALSE(predictor.knows(0));
  predictor.learn(layer.clip(1)->seen, true, layer.threads);
  const auto before = predictor.save();
  predictor.learn(spoilt->seen, true, layer.threads);
  const auto after = predictor.save();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) expect_same_bits(before[i].values, after[i].values);
}

TEST(HiddenPredictor, KnowsNothingWithoutAnOrigin) {
  WanLayer layer(2, 16, 0);
  HiddenPredictor predictor(layer.shape, 8, 1);
  const auto clip = layer.clip(1);
  const Origin empty;
  for (const Origin* origin : {&empty, static_cast<const Origin*>(nullptr)}) {
    Seen seen = clip->seen;
    seen.origin = origin;
    predictor.learn(seen, true, layer.threads);
    EXPECT_FALSE(predictor.knows(0));
  }
}

TEST(HiddenPredictor, RanksAreEvenAndNoLargerThanAHead) {
  EXPECT_EQ(HiddenPredictor({1, 2, 8}, 16, 1).rank(0, 0), 8);
  EXPECT_EQ(HiddenPredictor({1, 2, 32}, 0, 1).rank(0, 0), 24);
  EXPECT_EQ(HiddenPredictor({1, 2, 128}, 0, 1).rank(0, 0), 32);
  EXPECT_EQ(HiddenPredictor({1, 2, 6}, 0, 1).rank(0, 0), 4);
  EXPECT_EQ(HiddenPredictor({1, 2, 64}, 9, 1).rank(0, 0), 10);
  EXPECT_EQ(HiddenPredictor({1, 2, 64}, 256, 1).rank(0, 0), 64);
}

}  // namespace
}  // namespace reel::predict
