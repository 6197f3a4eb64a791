#include "reel/plan/samples.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/plan/counts.h"

namespace reel::plan {

namespace {

// Johnk: u^(1/a) and v^(1/b), drawn again until their sum is at most 1.
double beta(const Random& random, std::uint64_t& draw, double a, double b) {
  for (;;) {
    const double x = std::pow(static_cast<double>(random.uniform(draw)), 1 / a);
    const double y = std::pow(static_cast<double>(random.uniform(draw + 1)), 1 / b);
    draw += 2;
    if (x + y <= 1 && x + y > 0) return x / (x + y);
  }
}

std::vector<double> densities_of(std::vector<double> sparsities) {
  for (double& s : sparsities) s = 1 - s;
  return sparsities;
}

}  // namespace

std::vector<double> beta_densities(int heads, std::uint64_t seed) {
  const Random random(seed);
  std::uint64_t draw = 0;
  std::vector<double> densities;
  densities.reserve(sized(heads));
  for (int h = 0; h < heads; ++h) densities.push_back(std::max(0.001, beta(random, draw, 1.2, 2.2)));
  return densities;
}

std::vector<double> dsv_densities() {
  return densities_of(
      {.8267, .9984, .9973, .9980, .9817, .9930, .9981, .9918, .9886, .9632, .9962, .9898, .8122, .9097, .9542, .9985});
}

std::vector<double> dsv_layer_densities() {
  return densities_of({.0116, .0105, .0216, .7539, .9062, .9453, .9648, .9766, .9883, .9805, .9805,
                       .9883, .9844, .9883, .9805, .9844, .9805, .9883, .9805, .9688, .9805, .9844,
                       .9766, .9766, .9805, .9883, .9727, .9766, .9766, .9531, .9531, .0211});
}

lists::KeyLists lists_of_densities(const std::vector<double>& densities) {
  constexpr std::int64_t kRows = 16, kColumns = 64, kBlocks = kRows * kColumns;
  Mask mask;
  mask.reserve(densities.size() * kBlocks);
  for (const double density : densities) {
    const std::int64_t ones = std::llround(density * kBlocks);
    for (std::int64_t i = 0; i < kBlocks; ++i) mask.push_back((i + 1) * ones / kBlocks > i * ones / kBlocks ? 1 : 0);
  }
  return lists_of_mask(mask, static_cast<std::int64_t>(densities.size()), kRows, kColumns);
}

lists::KeyLists video_lists(Kind kind, int heads, int blocks, std::uint64_t seed, double drift) {
  const Random shape(seed), noise(seed, 1);
  std::uint64_t draw = 0, cell = 0;
  Mask mask(sized(heads) * sized(blocks) * sized(blocks));
  std::vector<float> speckle(sized(blocks));
  for (int h = 0; h < heads; ++h) {
    const auto uniform = [&] { return static_cast<double>(shape.uniform(draw++)); };
    const auto upto = [&](double most) { return static_cast<int>(uniform() * most); };
    const double phase = uniform();
    const double size = (0.5 + uniform()) * (1 + 0.5 * std::sin(2 * std::numbers::pi * (drift + phase)));
    const int band = static_cast<int>(size * blocks / 12), period = 6 + upto(12);
    const int global = upto(blocks), globals = 1 + static_cast<int>(size * blocks / 24);
    const int busy = upto(0.7 * blocks), busy_rows = static_cast<int>(size * blocks / 6);
    const Kind own = kind == Kind::kMixed ? static_cast<Kind>(h % 4) : kind;
    for (int r = 0; r < blocks; ++r) {
      noise.fill_uniform(speckle, cell);
      for (int c = 0; c < blocks; ++c, ++cell) {
        const int apart = std::abs(r - c);
        bool on = apart <= 1 + (own == Kind::kBanded ? 2 * band : band / 2);
        on |= own == Kind::kGlobal && c >= global && c < global + globals;
        on |= own == Kind::kPeriodic && apart % period == 0;
        on |= own == Kind::kClustered && r >= busy && r < busy + busy_rows;
        on |= static_cast<double>(speckle[sized(c)]) < 0.02 * size;
        mask[cell] = on ? 1 : 0;
      }
    }
  }
  return lists_of_mask(mask, heads, blocks, blocks);
}

}  // namespace reel::plan
