#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "reel/parallel/attention.h"
#include "reel/parallel/testing.h"
#include "reel/tape/operations.h"

namespace reel::parallel {
namespace {

using lists::KeyLists;
using tape::Shape;
using testing::copy_of;
using testing::random_values;
using testing::world;

struct Result {
  std::vector<float> out, dq, dk, dv;
  double pairs[2] = {};  // that the record says, forward and backward
};

// q, k, v [batch, tokens, heads, head_dim] whole on every rank go in; on one rank, or on `team`, evenly or as `tokens`
// are cut.
Result attend(const Shape& shape, const std::shared_ptr<const KeyLists>& lists, Team* team,
              const std::optional<layout::Cut>& tokens = {}) {
  Threads threads(1);
  testing::poll_from(threads);
  tape::Pool pool;
  Recorder recorder;
  Result result;
  {
    Tape tape(threads, pool, {.recorder = &recorder});
    const Tensor q = tape.differentiable(shape, random_values(shape, 1));
    const Tensor k = tape.differentiable(shape, random_values(shape, 2));
    const Tensor v = tape.differentiable(shape, random_values(shape, 3));
    Tensor out;
    if (team == nullptr) {
      out = tape::attention(tape, q, k, v, lists);
    } else {
      const layout::Cut cut = tokens ? *tokens : layout::even_cut(shape[1], team->sequence().size());
      const Share share = share_of(*team, cut, shape[2]);
      const auto own = [&](const Tensor& x) { return split(tape, team->sequence(), x, 1, cut); };
      out =
          gather(tape, team->sequence(), attention(tape, *team, own(q), own(k), own(v), cut, share.of(lists)), 1, cut);
    }
    result.out = copy_of(out.span());
    tape.backward(tape::given_loss(tape, out, 0, tape.copy_in(shape, random_values(shape, 4))));
    result.dq = copy_of(tape.gradient(q).span());
    result.dk = copy_of(tape.gradient(k).span());
    result.dv = copy_of(tape.gradient(v).span());
  }
  EXPECT_EQ(pool.live_bytes(), 0u);
  for (const Record& r : recorder.records()) {
    const auto* work = std::get_if<work::Attention>(&r.work.what);
    if (work == nullptr) continue;
    EXPECT_EQ(work->kind, work::Attention::Kind::kSelf);
    result.pairs[work->direction == work::Attention::Direction::kForward ? 0 : 1] += static_cast<double>(work->pairs);
  }
  return result;
}

// Some heads dense, some lists empty, groups of odd sizes.
std::shared_ptr<const KeyLists> mixed_lists(const Shape& shape, int granularity) {
  const KeyLists random =
      lists::random_lists(shape[0], shape[2], shape[1], lists::uniform_groups(shape[1], 5), 0.3, granularity, 7);
  lists::KeyListsBuilder builder(shape[0], shape[2], shape[1], random.group_starts, granularity);
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t h = 0; h < shape[2]; ++h) {
      if ((b + h) % 3 == 1) {
        builder.add_dense_head();
        continue;
      }
      for (std::int64_t g = 0; g < random.groups(); ++g) {
        builder.add(g % 4 == 2 ? std::span<const std::int32_t>() : random.list(b, h, g));
      }
    }
  }
  return std::make_shared<KeyLists>(builder.finish());
}

TEST(ManyRanks, AttentionIsThatOfOneRankForEveryFactorisation) {
  const std::vector<Shape> shapes = {{1, 64, 4, 8}, {2, 37, 3, 16}, {1, 3, 2, 8}, {2, 150, 1, 8}, {1, 29, 5, 8}};
  for (const layout::Degrees& plan : testing::factorisations(world().size())) {
    Team team(world(), plan);
    for (const Shape& shape : shapes) {
      for (const int kind : {0, 1, lists::kTileKeys}) {
        SCOPED_TRACE(fmt::format("{} {} lists {}", plan.text(), tape::shape_text(shape), kind));
        const auto lists = kind == 0 ? nullptr : mixed_lists(shape, kind);
        const Result one = attend(shape, lists, nullptr), many = attend(shape, lists, &team);
        double pairs[2] = {many.pairs[0], many.pairs[1]};
        world().all_reduce(pairs);
        for (const int way : {0, 1}) {
          EXPECT_EQ(one.pairs[way],
                    static_cast<double>(lists != nullptr ? lists->pairs() : shape[0] * shape[1] * shape[1] * shape[2]));
          EXPECT_EQ(pairs[way], one.pairs[way]) << "each pair is computed by one rank, once in each direction";
        }
        testing::expect_parity(many.out, one.out);
        testing::expect_parity(many.dq, one.dq, testing::largest(one.dv));
        testing::expect_parity(many.dk, one.dk, testing::largest(one.dv));
        testing::expect_parity(many.dv, one.dv);
      }
    }
  }
}

TEST(ManyRanks, SharesHaveEveryPairOnce) {
  for (const layout::Degrees& plan : testing::factorisations(world().size())) {
    Team team(world(), plan);
    for (const Shape& shape : {Shape{2, 37, 3, 16}, {1, 3, 2, 8}}) {
      const auto lists = mixed_lists(shape, 1);
      const Share share = share_of(team, layout::even_cut(shape[1], world().size()), shape[2]);
      const std::int64_t own = share.of(lists).pairs();
      std::vector<std::int64_t> all(static_cast<std::size_t>(world().size()));
      world().all_gather_v(&own, all.data(), std::vector<std::int64_t>(all.size(), sizeof(own)));
      EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::int64_t{0}), lists->pairs()) << plan.text();
    }
  }
}

// Rank 0 has no tokens, the keys of the last rank are needed by nobody, and some groups lie on two ranks.
TEST(ManyRanks, RanksWithoutQueriesAndBlocksThatNobodyNeeds) {
  const int n = world().size();
  Team team(world(), {.ring = n});
  layout::Cut cut{{0, 0}};
  for (int r = 1; r < n; ++r) cut.starts.push_back(r * 70);  // tiles of 64 keys are cut
  const Shape shape = {1, cut.extent(), 2, 8};
  for (const int granularity : {1, lists::kTileKeys}) {
    lists::KeyListsBuilder builder(1, 2, shape[1], lists::uniform_groups(shape[1], 9), granularity);
    for (std::int64_t i = 0; i < 2 * ((shape[1] + 8) / 9); ++i) {
      const bool some = n > 2 && i % 3 != 1;
      builder.add(some ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{});
    }
    const auto lists = std::make_shared<KeyLists>(builder.finish());
    const Result one = attend(shape, lists, nullptr), many = attend(shape, lists, &team, cut);
    testing::expect_parity(many.out, one.out);
    testing::expect_parity(many.dq, one.dq, testing::largest(one.dv));
    testing::expect_parity(many.dk, one.dk, testing::largest(one.dv));
    testing::expect_parity(many.dv, one.dv);
  }
}

TEST(ManyRanks, SameBitsEachTime) {
  for (const layout::Degrees& plan : testing::factorisations(world().size())) {
    Team team(world(), plan);
    const Shape shape = {1, 41, 3, 8};
    const Result a = attend(shape, nullptr, &team), b = attend(shape, nullptr, &team);
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.dq, b.dq);
    EXPECT_EQ(a.dk, b.dk);
    EXPECT_EQ(a.dv, b.dv);
  }
}

// Keys travel only as far around the ring as a rank needs them; their gradients begin at the first who does.
TEST(ManyRanks, KeysThatNobodyNeedsAreNotSent) {
  const int n = world().size();
  Team team(world(), {.ring = n});
  const std::int64_t each = 6, tokens = each * n;
  const Shape shape = {1, tokens, 2, 8};
  const std::int64_t block = each * 2 * 8 * 4 * 2;  // bytes of keys and values
  // Each rank needs its own block, and those from `first` to `reach` before it.
  for (int reach = 0; reach < n; ++reach) {
    for (int first = std::min(reach, 1); first <= reach; ++first) {
      lists::KeyListsBuilder builder(1, 2, tokens, lists::uniform_groups(tokens, each));
      for (int h = 0; h < 2; ++h) {
        for (int g = 0; g < n; ++g) {
          std::vector<std::int32_t> keys = {static_cast<std::int32_t>(g * each)};
          for (int back = std::max(first, 1); back <= reach; ++back)
            keys.push_back(static_cast<std::int32_t>((g - back + n) % n * each));
          std::sort(keys.begin(), keys.end());
          builder.add(keys);
        }
      }
      const auto lists = std::make_shared<KeyLists>(builder.finish());
      world().shared().traffic.clear();
      const Result many = attend(shape, lists, &team);
      const Phase forward = Phase::kForward, backward = Phase::kBackward;
      EXPECT_EQ(world().shared().traffic.bytes_sent(work::Exchange::Kind::kSend, &forward), reach * block);
      // Keys again, their gradients behind them and home.
      EXPECT_EQ(world().shared().traffic.bytes_sent(work::Exchange::Kind::kSend, &backward),
                reach == 0 ? 0 : (reach + reach - first + 1) * block);
      testing::expect_parity(many.dk, attend(shape, lists, nullptr).dk);
    }
  }
}

}  // namespace
}  // namespace reel::parallel
