#include "reel/lists/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::lists {

std::array<std::int64_t, 3> TokenOrder::position(std::int64_t token) const {
  const std::int64_t at = raster[sized(token)];
  return {at / (grid[1] * grid[2]), at / grid[2] % grid[1], at % grid[2]};
}

std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& permutation) {
  std::vector<std::int32_t> place(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    place[sized(permutation[i])] = static_cast<std::int32_t>(i);
  }
  return place;
}

TokenOrder tile_order(const std::array<std::int64_t, 3>& grid, const std::array<std::int64_t, 3>& tile,
                      const std::vector<std::int64_t>& cuts) {
  for (int axis = 0; axis < 3; ++axis) REEL_CHECK(grid[axis] > 0 && tile[axis] > 0);
  TokenOrder order;
  order.grid = grid;
  order.group_starts = {0};
  for (std::int64_t t0 = 0, t1 = 0; t0 < grid[0]; t0 = t1) {
    t1 = std::min(t0 + tile[0], grid[0]);
    for (const std::int64_t cut : cuts) {
      if (cut > t0 && cut < t1) t1 = cut;
    }
    for (std::int64_t y0 = 0; y0 < grid[1]; y0 += tile[1]) {
      for (std::int64_t x0 = 0; x0 < grid[2]; x0 += tile[2]) {
        for (std::int64_t t = t0; t < t1; ++t) {
          for (std::int64_t y = y0; y < std::min(y0 + tile[1], grid[1]); ++y) {
            for (std::int64_t x = x0; x < std::min(x0 + tile[2], grid[2]); ++x) {
              order.raster.push_back(static_cast<std::int32_t>((t * grid[1] + y) * grid[2] + x));
            }
          }
        }
        order.group_starts.push_back(static_cast<std::int32_t>(order.raster.size()));
      }
    }
  }
  order.place = inverse(order.raster);
  return order;
}

std::vector<std::int32_t> sample_queries(const TokenOrder& order, std::int64_t samples) {
  std::vector<std::int32_t> chosen;
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    const std::int32_t first = order.group_starts[sized(g)];
    const std::int32_t last = order.group_starts[sized(g) + 1];
    std::vector<std::int32_t> tokens(sized(last - first));
    std::iota(tokens.begin(), tokens.end(), first);
    if (samples == 1) {
      // Row-major middle of the tile: half of its extent along each axis.
      const auto low = order.position(first), high = order.position(last - 1);
      const std::array<std::int64_t, 3> middle = {(low[0] + high[0]) / 2, (low[1] + high[1]) / 2,
                                                  (low[2] + high[2]) / 2};
      chosen.push_back(order.place[sized((middle[0] * order.grid[1] + middle[1]) * order.grid[2] + middle[2])]);
      continue;
    }
    const auto diagonal = [&](std::int32_t token) {
      constexpr int kTurn[] = {0, 2, 1, 3};
      const auto p = order.position(token);
      return kTurn[(p[0] + p[1] + p[2]) % 4];
    };
    std::stable_sort(tokens.begin(), tokens.end(),
                     [&](std::int32_t a, std::int32_t b) { return diagonal(a) < diagonal(b); });
    if (samples < static_cast<std::int64_t>(tokens.size()) && samples % 16 != 0) {  // an even pick of the sorted ones
      std::vector<std::int32_t> picked;
      for (std::int64_t s = 0; s < samples; ++s) {
        picked.push_back(tokens[sized(s) * tokens.size() / sized(samples)]);
      }
      tokens = std::move(picked);
    }
    for (std::int64_t s = 0; s < samples; ++s) chosen.push_back(tokens[sized(s) % tokens.size()]);
  }
  return chosen;
}

std::vector<double> squared_distances(const TokenOrder& order, std::int64_t group) {
  const std::int32_t first = order.group_starts[sized(group)], end = order.group_starts[sized(group) + 1];
  std::array<double, 3> middle{};
  for (std::int32_t token = first; token < end; ++token) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      middle[axis] += static_cast<double>(order.position(token)[axis]) / static_cast<double>(end - first);
    }
  }
  std::vector<double> squares;
  for (std::int64_t i = 0; i < order.tokens(); ++i) {
    const auto p = order.position(i);
    double square = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) square += std::pow(static_cast<double>(p[axis]) - middle[axis], 2);
    squares.push_back(square);
  }
  return squares;
}

std::vector<std::int64_t> spread_groups(const TokenOrder& order, std::int64_t count, std::uint64_t seed) {
  count = std::min(count, order.groups());
  const Random random(seed, 2);
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * order.groups() / count, end = (i + 1) * order.groups() / count;
    const std::uint64_t draw = random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(end - first));
    groups.push_back(first + static_cast<std::int64_t>(draw));
  }
  return groups;
}

}  // namespace reel::lists
