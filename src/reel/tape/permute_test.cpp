#include <gtest/gtest.h>

#include <numeric>

#include "reel/tape/testing.h"

namespace reel::tape {
namespace {

using testing::Arrays;
using testing::check;
using testing::Tensors;
using Table = std::deque<Parameter>;
using Triple = std::array<std::int64_t, 3>;

TEST(Permute, EveryOrderOfThreeAxes) {
  std::vector<int> order = {0, 1, 2};
  do {
    SCOPED_TRACE(fmt::format("{}", fmt::join(order, " ")));
    check([&](Tape& t, const Tensors& x, Table&) { return permute(t, x[0], order); }, {{3, 4, 5}}, {},
          [&](const Arrays& x, const Arrays&) { return reference::permute(x[0], order); });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Permute, ManyAxesAndAxesOfOneElement) {
  const std::vector<std::pair<Shape, std::vector<int>>> all = {
      {{2, 3, 2, 2, 3}, {0, 2, 1, 4, 3}},
      {{2, 1, 3, 1, 4}, {3, 2, 0, 1, 4}},
      {{2, 3, 4, 2}, {0, 1, 3, 2}},
      {{1, 1, 1}, {2, 0, 1}},
      {{7}, {0}},
      {{2, 0, 3}, {2, 1, 0}},
  };
  for (const auto& [shape, order] : all) {
    SCOPED_TRACE(shape_text(shape));
    check([o = order](Tape& t, const Tensors& x, Table&) { return permute(t, x[0], o); }, {shape}, {},
          [o = order](const Arrays& x, const Arrays&) { return reference::permute(x[0], o); });
  }
}

TEST(Permute, LargeCopiesAreCutIntoChunksWithoutGaps) {
  Threads threads(3);
  Pool pool;
  Tape tape(threads, pool, {.gradients = false});
  const Shape shape = {3, 130, 257};  // 100,000 floats: several chunks, short lines and long ones
  const std::vector<float> values = testing::random_values(shape, 1);
  const Tensor x = tape.copy_in(shape, values);
  for (const std::vector<int>& order : {std::vector<int>{2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    const reference::Array want = reference::permute(testing::doubles(shape, values), order);
    testing::expect_close(permute(tape, x, order).span(), want.values, 0, 0);
  }
}

TEST(Slice, EveryAxisAndEveryPart) {
  const Shape shape = {3, 4, 5};
  for (int axis = -3; axis < 3; ++axis) {
    const auto at = static_cast<std::size_t>((axis + 3) % 3);
    const std::vector<std::pair<std::int64_t, std::int64_t>> parts = {{0, 2}, {1, 2}, {0, shape[at]}, {2, 0}};
    for (const auto& [first, count] : parts) {
      SCOPED_TRACE(fmt::format("axis {} from {} count {}", axis, first, count));
      check([&, f = first, c = count](Tape& t, const Tensors& x, Table&) { return slice(t, x[0], axis, f, c); },
            {shape}, {},
            [&, f = first, c = count](const Arrays& x, const Arrays&) { return reference::slice(x[0], at, f, c); });
    }
  }
}

TEST(Slice, PartsOfOneTensorOverlappingOrNotAddToOneGradient) {
  check(
      [](Tape& t, const Tensors& x, Table&) {
        return add(t, add(t, slice(t, x[0], 1, 0, 3), slice(t, x[0], 1, 2, 3)), slice(t, x[0], 1, 5, 3));
      },
      {{2, 9, 3}}, {},
      [](const Arrays& x, const Arrays&) {
        return reference::add(reference::add(reference::slice(x[0], 1, 0, 3), reference::slice(x[0], 1, 2, 3)),
                              reference::slice(x[0], 1, 5, 3));
      });
}

TEST(Concatenate, EveryAxisAndPartsOfAnySize) {
  for (int axis = -3; axis < 3; ++axis) {
    SCOPED_TRACE(axis);
    const auto at = static_cast<std::size_t>((axis + 3) % 3);
    std::vector<Shape> shapes(3, Shape{3, 4, 5});
    shapes[0][at] = 2, shapes[1][at] = 0;
    check(
        [&](Tape& t, const Tensors& x, Table&) {
          return concatenate(t, {x[0], x[1], x[2]}, axis);
        },
        shapes, {},
        [&](const Arrays& x, const Arrays&) {
          reference::Array y = reference::pad(x[0], at, x[2].shape[at]);
          reference::for_each_index(x[2].shape, [&](const Shape& index) {
            Shape to = index;
            to[at] += 2;
            y.at(to) = x[2].at(index);
          });
          return y;
        });
  }
}

TEST(Pad, EveryAxis) {
  for (int axis = -3; axis < 3; ++axis) {
    for (const std::int64_t count : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("axis {} count {}", axis, count));
      const auto at = static_cast<std::size_t>((axis + 3) % 3);
      check([&](Tape& t, const Tensors& x, Table&) { return pad(t, x[0], axis, count); }, {{3, 4, 5}}, {},
            [&](const Arrays& x, const Arrays&) { return reference::pad(x[0], at, count); });
    }
  }
}

TEST(Patchify, LeavesOutWhatDoesNotFillAPatch) {
  const std::vector<std::pair<Shape, Triple>> all = {
      {{2, 3, 2, 4, 4}, {1, 2, 2}}, {{2, 3, 3, 5, 7}, {2, 2, 3}}, {{1, 2, 3, 4, 5}, {1, 1, 1}}};
  for (const auto& [shape, patch] : all) {
    SCOPED_TRACE(shape_text(shape));
    check([p = patch](Tape& t, const Tensors& x, Table&) { return patchify(t, x[0], p); }, {shape}, {},
          [p = patch](const Arrays& x, const Arrays&) { return reference::patchify(x[0], p); });
  }
}

TEST(Unpatchify, PutsChannelsFirst) {
  const Triple grid = {3, 2, 4}, patch = {2, 1, 3};
  check([&](Tape& t, const Tensors& x, Table&) { return unpatchify(t, x[0], grid, patch); }, {{2, 24, 6 * 2}}, {},
        [&](const Arrays& x, const Arrays&) { return reference::unpatchify(x[0], grid, patch); });
}

// patchify has channels slowest within a patch, unpatchify fastest: with that turned around, they undo each other.
TEST(Unpatchify, UndoesPatchify) {
  Threads threads(1);
  Pool pool;
  Tape tape(threads, pool, {.gradients = false});
  const Shape shape = {2, 3, 4, 6, 4};
  const Triple grid = {2, 2, 4}, patch = {2, 3, 1};
  const std::vector<float> values = testing::random_values(shape, 1);
  const Tensor tokens = patchify(tape, tape.copy_in(shape, values), patch);
  const Tensor turned = permute(tape, tokens.reshaped({2, 16, 3, 6}), {0, 1, 3, 2}).reshaped({2, 16, 18});
  const Tensor back = unpatchify(tape, turned, grid, patch);
  EXPECT_EQ(back.shape(), shape);
  testing::expect_same_bits(back.span(), values);
}

}  // namespace
}  // namespace reel::tape
