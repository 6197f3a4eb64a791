#include <gtest/gtest.h>

#include "reel/parallel/shard.h"
#include "reel/parallel/testing.h"
#include "reel/tape/operations.h"

namespace reel::parallel {
namespace {

using tape::Shape;
using testing::copy_of;
using testing::random_values;
using testing::world;

struct Case {
  Shape shape;
  int from, to;
  bool uneven = false;  // cuts that are not even: everything before the last rank's is as small as can be
};

const std::vector<Case> kCases = {
    {{8, 12, 4}, 0, 1},      {{8, 12, 4}, 1, 0},       {{5, 7, 3}, 0, 1},         {{2, 5, 1, 3}, 1, 2},
    {{2, 3, 6, 5, 2}, 3, 1}, {{3, 1, 2, 9, 1}, 0, 3},  {{1, 1, 4}, 0, 1},         {{4, 6}, 0, 1},
    {{7, 5, 3, 2}, -3, -4},  {{11, 9, 2}, 0, 1, true}, {{2, 9, 3, 8}, 3, 1, true}};

layout::Cut cut_of(std::int64_t extent, bool uneven) {
  if (!uneven) return layout::even_cut(extent, world().size());
  layout::Cut cut;
  for (int r = 0; r + 1 < world().size(); ++r)
    cut.starts.push_back(std::min<std::int64_t>(extent, cut.starts.back() + r % 2));
  cut.starts.push_back(extent);
  return cut;
}

// The part of an array that lies in [begin, end) of an axis, one element after another.
std::vector<float> part(const std::vector<float>& x, const Shape& shape, int axis, std::int64_t begin,
                        std::int64_t end) {
  std::vector<float> some;
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) / inner % shape[static_cast<std::size_t>(axis)];
    if (at >= begin && at < end) some.push_back(x[i]);
  }
  return some;
}

// split, switch, gather: values are those of the whole tensor at every stage, and so are gradients.
TEST(Shard, EveryStageHoldsItsPartAndGradientsComeBack) {
  const int rank = world().rank();
  for (const Case& c : kCases) {
    SCOPED_TRACE(tape::shape_text(c.shape) + fmt::format(" {} to {}", c.from, c.to));
    const int axes = static_cast<int>(c.shape.size());
    const int from = c.from < 0 ? c.from + axes : c.from, to = c.to < 0 ? c.to + axes : c.to;
    const layout::Cut a = cut_of(c.shape[static_cast<std::size_t>(from)], c.uneven);
    const layout::Cut b = cut_of(c.shape[static_cast<std::size_t>(to)], c.uneven);
    const std::vector<float> values = random_values(c.shape, 1), weights = random_values(c.shape, 2);
    Threads threads(2);
    testing::poll_from(threads);
    tape::Pool pool;
    {
      Tape tape(threads, pool, {});
      const Tensor x = tape.differentiable(c.shape, values);
      const Tensor cut = split(tape, world(), x, c.from, a);
      EXPECT_EQ(copy_of(cut.span()), part(values, c.shape, from, a.begin(rank), a.end(rank)));
      const Tensor other = switch_shard(tape, world(), cut, c.from, a, c.to, b);
      EXPECT_EQ(copy_of(other.span()), part(values, c.shape, to, b.begin(rank), b.end(rank)));
      const Tensor doubled = tape::scale(tape, 2.0f, other);
      const Tensor back = switch_shard(tape, world(), doubled, c.to, b, c.from, a);
      const Tensor y = gather(tape, world(), back, c.from, a);
      std::vector<float> expected = values;
      for (float& value : expected) value *= 2;
      EXPECT_EQ(copy_of(y.span()), expected);
      const Tensor loss = tape::given_loss(tape, y, 0, tape.copy_in(c.shape, weights));
      tape.backward(loss);
      std::vector<float> gradient = weights;
      for (float& value : gradient) value *= 2;
      EXPECT_EQ(copy_of(tape.gradient(x).span()), gradient);
    }
  }
}

// Two switches under way at once, work between start and end, one way and back: the values are those of switches that
// wait, and so are the gradients.
TEST(Shard, SwitchesUnderWayAtOnceKeepTheirValuesApart) {
  const int n = world().size(), rank = world().rank();
  const layout::Cut a = layout::even_cut(7, n), b = layout::even_cut(2 * n + 1, n);
  const Shape whole = {2, b.extent(), 7, 3};
  const auto pass = [&](bool at_once) {
    Threads threads(1);
    testing::poll_from(threads);
    tape::Pool pool;
    std::vector<float> result;
    {
      Tape tape(threads, pool, {});
      const Tensor x = tape.differentiable(whole, random_values(whole, 1));
      const Tensor y = tape.differentiable(whole, random_values(whole, 2));
      std::vector<Tensor> out;
      if (at_once) {
        Switch first(tape, world(), split(tape, world(), x, 2, a), 2, a, 1, b);
        Switch second(tape, world(), split(tape, world(), y, 2, a), 2, a, 1, b);
        Switch first_back(tape, world(), tape::scale(tape, 2.0f, first.finish(tape)), 1, b, 2, a);
        Switch second_back(tape, world(), tape::scale(tape, 3.0f, second.finish(tape)), 1, b, 2, a);
        out = {first_back.finish(tape), second_back.finish(tape)};
      } else {
        const auto way = [&](const Tensor& t, float factor) {
          const Tensor there = switch_shard(tape, world(), split(tape, world(), t, 2, a), 2, a, 1, b);
          return switch_shard(tape, world(), tape::scale(tape, factor, there), 1, b, 2, a);
        };
        out = {way(x, 2.0f), way(y, 3.0f)};
      }
      EXPECT_EQ(out[0].dim(2), a.size(rank));
      const Tensor both = tape::concatenate(tape, out, 3);
      result = copy_of(both.span());
      tape.backward(tape::given_loss(tape, both, 0, tape.copy_in(both.shape(), random_values(both.shape(), 3))));
      for (const Tensor& t : {x, y}) {
        const std::vector<float> gradient = copy_of(tape.gradient(t).span());
        result.insert(result.end(), gradient.begin(), gradient.end());
      }
    }
    EXPECT_EQ(pool.live_bytes(), 0u);
    return result;
  };
  EXPECT_EQ(pass(true), pass(false));
}

// M bytes cut over n ranks: a switch sends (M / n) (n - 1) / n for even cuts, what the cuts say for others.
TEST(Shard, ASwitchSendsWhatLeavesTheRankAndNoMore) {
  const int n = world().size(), rank = world().rank();
  for (const auto& [t, s] : {std::pair<std::int64_t, std::int64_t>{12, 24}, {5, 7}, {1, 30}}) {
    const layout::Cut a = layout::even_cut(s, n), b = layout::even_cut(t, n);
    Threads threads(1);
    tape::Pool pool;
    world().shared().traffic.clear();
    {
      Tape tape(threads, pool, {});
      const Tensor x = tape.differentiable({2, t, a.size(rank), 8}, random_values({2, t, a.size(rank), 8}, 1));
      const Tensor y = switch_shard(tape, world(), x, 2, a, 1, b);
      const Phase forward = Phase::kForward, backward = Phase::kBackward;
      const std::int64_t sent = world().shared().traffic.bytes_sent(work::Exchange::Kind::kAllToAll, &forward);
      EXPECT_EQ(sent, 2 * 8 * 4 * a.size(rank) * (t - b.size(rank)));
      if (t % n == 0 && s % n == 0) {
        EXPECT_EQ(sent, 2 * t * s * 8 * 4 / n * (n - 1) / n);
      }
      tape.backward(tape::given_loss(tape, y, 0, tape.zeros(y.shape())));
      EXPECT_EQ(world().shared().traffic.bytes_sent(work::Exchange::Kind::kAllToAll, &backward),
                2 * 8 * 4 * b.size(rank) * (s - a.size(rank)));
    }
  }
}

// A ghost tape of a ghost rank runs the same operations in the same memory.
TEST(Shard, GhostsCountWhatIsUsed) {
  const auto pass = [](comm::Comm& comm, bool ghost) {
    const layout::Cut a = layout::even_cut(7, comm.size()), b = layout::even_cut(5, comm.size());
    Threads threads(1);
    tape::Pool pool(ghost);
    Recorder recorder;
    comm.shared().traffic.clear();
    {
      Tape tape(threads, pool, {.recorder = &recorder});
      const std::vector<float> values = random_values({2, 7, 5, 3}, 1);
      const Tensor x = tape.differentiable({2, 7, 5, 3}, values);
      const Tensor y = switch_shard(tape, comm, split(tape, comm, x, 1, a), 1, a, 2, b);
      const Tensor z = gather(tape, comm, y, 2, b);
      tape.backward(tape::given_loss(tape, z, 0, tape.zeros(z.shape())));
    }
    std::vector<std::string> lines = tape::testing::lines(recorder);
    lines.push_back(fmt::format("{} bytes at most, {} sent", pool.peak_bytes(), comm.shared().traffic.bytes_sent()));
    return lines;
  };
  const auto ghost = comm::make_ghost(world().rank(), world().size());
  EXPECT_EQ(pass(*ghost, true), pass(world(), false));
}

}  // namespace
}  // namespace reel::parallel
