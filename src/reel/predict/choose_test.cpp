#include "reel/predict/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/attention/select.h"
#include "reel/lists/controls.h"
#include "reel/lists/testing.h"
#include "reel/predict/testing.h"

namespace reel::predict {
namespace {

using lists::KeyLists;
using lists::testing::tokens_of;
using testing::Layer;

// Gives q and k themselves, times a factor.
class Itself final : public Predictor {
 public:
  Itself(const ModelHeads& shape, float q_factor) : Predictor(shape), q_factor_(q_factor) {}
  bool knows(int) const override { return true; }
  std::int64_t rank(int, std::int64_t) const override { return shape_.head_dim; }
  void predict(const Seen& seen, std::span<const std::int64_t> heads, std::span<const std::int32_t> rows,
               std::int64_t rank, float* low_q, float* low_k, Threads&) const override {
    EXPECT_EQ(rank, shape_.head_dim);
    const auto row = [&](const float* from, std::int64_t b, std::int64_t token, std::int64_t h) {
      return from + ((b * seen.tokens + token) * shape_.heads + h) * shape_.head_dim;
    };
    for (std::int64_t b = 0; b < seen.batch; ++b) {
      for (const std::int64_t h : heads) {
        for (const std::int32_t token : rows) {
          low_q = std::transform(row(seen.q, b, token, h), row(seen.q, b, token, h) + rank, low_q,
                                 [&](float x) { return q_factor_ * x; });
        }
        for (std::int64_t token = 0; token < seen.tokens; ++token) {
          low_k = std::copy_n(row(seen.k, b, token, h), rank, low_k);
        }
      }
    }
  }
  bool learns_always() const override { return false; }
  Wanted wants(const Origin*, int, std::int64_t, bool) const override { return {}; }
  void learn_from(const Lesson&, Threads&) override {}
  std::vector<Saved> save() const override { return {}; }
  void load(const SafetensorsFile&) override {}

 private:
  float q_factor_;
};

struct Choose {
  ModelHeads shape{1, 3, 8};
  lists::TokenOrder order = lists::tile_order({3, 5, 7}, {4, 4, 4});
  Layer x{2, 105, shape, 1};
  std::vector<std::int32_t> sampled;
  ChooseInput in;
  Threads threads{2};

  explicit Choose(std::int64_t samples = 64) : sampled(lists::sample_queries(order, samples)) {
    for (float& value : x.q) value *= 100;
    in.order = &order;
    in.head_dim = 8;
    in.samples = samples;
    in.members = {{2, 60}, {0, 40}};  // groups of 48, 36, 12 and 9
  }
  KeyLists run(float q_factor = 1) {
    const Itself predictor(shape, q_factor);
    return choose_keys(predictor, {0, x.batch, x.tokens, x.q.data(), x.k.data(), nullptr}, sampled, in, threads);
  }
};

// Sums of softmax over the group's queries, in double: the own tile and then the heaviest keys.
TEST(ChooseKeys, AreTheHeaviestOfTheGroupAndTheOwnTile) {
  Choose c;
  const KeyLists lists = c.run();
  ASSERT_EQ(lists.heads, 2);
  ASSERT_EQ(lists.batch, 2);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::size_t member = 0; member < 2; ++member) {
      const std::int64_t h = c.in.members[member].head;
      for (std::int64_t g = 0; g < c.order.groups(); ++g) {
        std::vector<double> weights(105);
        const std::int64_t first = c.order.group_starts[static_cast<std::size_t>(g)];
        const std::int64_t end = c.order.group_starts[static_cast<std::size_t>(g) + 1];
        for (std::size_t s = 0; s < 64; ++s) {
          const std::int64_t i = c.sampled[static_cast<std::size_t>(g) * 64 + s];
          std::vector<double> e(105);
          double sum = 0;
          for (std::int64_t j = 0; j < 105; ++j) {
            double score = 0;
            for (std::size_t d = 0; d < 8; ++d) {
              score +=
                  static_cast<double>(c.x.q[c.x.at(b, i, h) + d]) * static_cast<double>(c.x.k[c.x.at(b, j, h) + d]);
            }
            sum += e[static_cast<std::size_t>(j)] = std::exp(score / std::sqrt(8.0));
          }
          for (std::size_t j = 0; j < 105; ++j) weights[j] += e[j] / sum;
        }
        std::set<std::int64_t> want;
        std::vector<std::int64_t> by_weight(105);
        for (std::size_t j = 0; j < 105; ++j) by_weight[j] = static_cast<std::int64_t>(j);
        std::sort(by_weight.begin(), by_weight.end(), [&](std::int64_t p, std::int64_t q) {
          return weights[static_cast<std::size_t>(p)] > weights[static_cast<std::size_t>(q)];
        });
        for (std::int64_t own = first; own < end; ++own) want.insert(own);
        for (auto key = by_weight.begin(); want.size() < static_cast<std::size_t>(c.in.members[member].keep); ++key) {
          want.insert(*key);
        }
        EXPECT_EQ(tokens_of(lists, b, static_cast<std::int64_t>(member), g), want) << b << " " << h << " " << g;
      }
    }
  }
}

// Ragged tiles, a kept frame, budgets below what lists hold and near all keys.
TEST(ChooseKeys, AreAsManyAsAskedForWithWhatListsHold) {
  for (const std::vector<std::int64_t>& frames : {std::vector<std::int64_t>{}, {1}}) {
    const std::vector<std::int32_t> always = lists::tokens_of_frames(Choose().order, frames);
    for (const std::int64_t samples : {1, 16, 64}) {
      for (const std::int64_t keep : {-3, 0, 1, 40, 60, 103, 104}) {
        Choose c(samples);
        c.in.always = always;
        c.in.members = {{1, keep}, {0, 80}, {2, 105}};
        const KeyLists lists = c.run();
        EXPECT_FALSE(lists.dense(0, 0) || lists.dense(1, 1));
        EXPECT_TRUE(lists.dense(0, 2) && lists.dense(1, 2)) << "all keys";
        for (std::int64_t g = 0; g < c.order.groups(); ++g) {
          const auto held = static_cast<std::int64_t>(lists::held_tokens(c.order, g, always).size());
          EXPECT_EQ(lists.tokens(1, 0, g), std::max(keep, held)) << g;
          EXPECT_EQ(lists.tokens(0, 1, g), 80) << g;
        }
        c.in.granularity = lists::kTileKeys;
        c.in.members = {{1, 1}};
        EXPECT_EQ(c.run().list(0, 0, 0).size(), frames.empty() ? 1u : 2u) << "tokens 0 to 47; frame 1 is everywhere";
      }
    }
  }
}

TEST(ChooseKeys, GivesUpWherePredictionsAreNotFinite) {
  for (const float factor : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
    for (const std::int64_t samples : {1, 64}) {
      Choose c(samples);
      EXPECT_EQ(c.run(factor).heads, 0) << factor;
    }
  }
  Choose c;
  c.x.k[c.x.at(1, 104, 0)] = std::numeric_limits<float>::quiet_NaN();  // the last key of the last item
  EXPECT_EQ(c.run().heads, 0);
}

// Whatever is finite gives lists that are whole, or none: queries whose every score is hugely negative, too.
TEST(ChooseKeys, HugeScoresAreNoDanger) {
  for (const float size : {1e10f, 1e20f, 1e28f, 1e32f, 1e36f}) {
    for (const float sign : {1.0f, -1.0f}) {
      for (const std::int64_t samples : {1, 16, 64}) {
        for (const int granularity : {1, lists::kTileKeys}) {
          Choose c(samples);
          c.in.granularity = granularity;
          for (float& value : c.x.q) value = 1;
          for (float& value : c.x.k) value = std::abs(value) + 1;
          const KeyLists lists = c.run(sign * size);
          if (lists.heads == 0) continue;
          lists.check();
          if (granularity == 1 && samples == 1) continue;
          // All queries are alike, so the heaviest key is that of the largest score, if there is one.
          std::int64_t best = 0;
          double most = -1e300;
          for (std::int64_t j = 0; j < 105; ++j) {
            double score = 0;
            for (std::size_t d = 0; d < 8; ++d) score += static_cast<double>(sign * c.x.k[c.x.at(0, j, 2) + d]);
            if (score > most) most = score, best = j;
          }
          for (std::int64_t g = 0; g < c.order.groups(); ++g) {
            EXPECT_TRUE(tokens_of(lists, 0, 0, g).contains(best))
                << sign * size << ", " << samples << " samples, " << granularity;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reel::predict
