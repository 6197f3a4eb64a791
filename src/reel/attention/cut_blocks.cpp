#include "reel/attention/cut_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reel/base/sized.h"

namespace reel::attention {

namespace {

constexpr double kForwardUnits = 64;
constexpr double kBackwardUnits = 16;
// Dense forward in blocks of fewer than kForwardQueries, where there are not that many of them, down to 128: these run
// at 0.95 of the speed of 512 (work.h).
constexpr std::int64_t kLeastForwardUnits = 16, kLeastForwardQueries = 128;
// Adding up one more dK, dV costs about 3 ns a float on Zen 3, a pair 0.1 ns: 384 pairs keep it below a tenth.
constexpr double kLeastPairsPerKey = 384;
constexpr double kMostScratch = 256.0 * (1 << 20);  // bytes of further dK, dV
// Rows of K and V (backward: of dK and dV too) of one range, in bytes, and the fewest keys of a block in it: a block
// packs its queries anew for each range. 10 % of 32,768 keys of 4 heads, backward in GFLOP/s on two Zen 3 cores:
// 103-121 in place and at once, 118-133 in 8 ranges, 143-149 with their rows side by side (docs/decisions/0014).
constexpr double kRangeBytes = 4.0 * (1 << 20), kRangeKeys = 256;

double cost_of(const Block& block) {  // pairs, and packing of queries and keys
  return static_cast<double>(block.count) * static_cast<double>(block.tokens + 16) +
         8.0 * static_cast<double>(block.tokens);
}

std::vector<Block> make_blocks(const Shape& shape, const lists::ListsView& lists, std::int64_t most) {
  std::vector<Block> blocks;
  const auto add = [&](std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last, std::int64_t group,
                       std::int64_t tokens) {
    // Pieces of nearly equal size: 520 queries become 260 + 260, not 512 + 8.
    const std::int64_t pieces = (last - first + most - 1) / most;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t from = first + (last - first) * i / pieces, to = first + (last - first) * (i + 1) / pieces;
      blocks.push_back({b, h, from, to - from, group, tokens});
    }
  };
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      if (!lists || lists.dense(b, h)) {
        add(b, h, 0, shape.queries, -1, shape.keys);
        continue;
      }
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        const auto i = sized(g);
        add(b, h, lists.group_starts()[i], lists.group_starts()[i + 1], g, lists.tokens(b, h, g));
      }
    }
  }
  return blocks;
}

// Cuts the blocks [first, last) of one head into `parts` runs of nearly equal cost.
void cut_head(const std::vector<Block>& blocks, std::int64_t first, std::int64_t last, double cost, std::int64_t parts,
              std::vector<Unit>& units) {
  double sum = 0, from = 0;
  std::int64_t begin = first, part = 0;
  for (std::int64_t i = first; i < last; ++i) {
    sum += cost_of(blocks[sized(i)]);
    if (i + 1 == last || sum >= cost * static_cast<double>(part + 1) / static_cast<double>(parts)) {
      units.push_back({begin, i + 1, part, sum - from});
      begin = i + 1, from = sum, ++part;
    }
  }
}

template <class Parts>  // parts(cost of the head, cost of everything) -> number of parts
Blocks cut(const Shape& shape, const lists::ListsView& lists, std::int64_t most_queries, const Parts& parts) {
  Blocks work;
  work.blocks = make_blocks(shape, lists, most_queries);
  double total = 0;
  for (const Block& block : work.blocks) total += cost_of(block);
  const auto count = static_cast<std::int64_t>(work.blocks.size());
  for (std::int64_t first = 0; first < count;) {
    const Block& head = work.blocks[sized(first)];
    double cost = 0;
    std::int64_t last = first;
    for (; last < count; ++last) {
      const Block& block = work.blocks[sized(last)];
      if (block.b != head.b || block.h != head.h) break;
      cost += cost_of(block);
    }
    cut_head(work.blocks, first, last, cost, parts(cost, total), work.units);
    first = last;
  }
  // Units of much the same cost stay in order, so that threads work on the same head and share its keys and values in
  // the cache: two heads of 32,768 tokens do not fit 32 MB.
  const auto size = [](const Unit& unit) { return std::floor(4 * std::log2(std::max(1.0, unit.cost))); };
  std::stable_sort(work.units.begin(), work.units.end(),
                   [&](const Unit& a, const Unit& b) { return size(a) > size(b); });
  return work;
}

// Unit::ranges of a unit whose keys take `bytes` together.
std::int64_t ranges_of(const Blocks& work, const Unit& unit, double bytes) {
  double listed = 0;
  for (std::int64_t i = unit.first; i < unit.last; ++i) {
    listed += static_cast<double>(work.blocks[sized(i)].tokens);
  }
  const double a_block = listed / static_cast<double>(unit.last - unit.first);
  return std::max<std::int64_t>(1, std::llround(std::min(bytes / kRangeBytes, a_block / kRangeKeys)));
}

}  // namespace

void check_memory(const char* name, const float* data) {
  if (data == nullptr)
    throw Error(fmt::format("attention: {} has no memory", name), "give it room for every row of the shape");
}

void check_view(const char* name, ConstView view, const Shape& shape, std::int64_t rows) {
  if (rows == 0 || shape.batch * shape.heads == 0) return;
  check_memory(name, view.data);
  if (rows > 1 && view.row < shape.head_dim) {
    throw Error(
        fmt::format("attention: rows of {} are {} floats apart, but a row has {}", name, view.row, shape.head_dim),
        "strides are given in floats, not in bytes or rows");
  }
}

void check_shape(const Shape& s) {
  if (s.head_dim < 8 || s.head_dim > 256 || s.head_dim % 8 != 0) {
    throw Error(fmt::format("attention: head_dim {}", s.head_dim), "head_dim must be a multiple of 8 from 8 to 256");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (std::min({s.batch, s.heads, s.queries, s.keys}) < 0 || std::max({s.batch, s.heads, s.queries, s.keys}) > kMost) {
    throw Error(fmt::format("attention: batch {}, heads {}, queries {}, keys {}", s.batch, s.heads, s.queries, s.keys),
                "sizes must not be negative, and are counted in 32 bits");
  }
}

void check(const Input& in, const lists::ListsView& lists) {
  const Shape& s = in.shape;
  check_shape(s);
  check_view("q", in.q, s, s.queries);
  check_view("k", in.k, s, s.keys);
  check_view("v", in.v, s, s.keys);
  if (lists && (lists.batch() != s.batch || lists.heads() != s.heads || lists.queries() != s.queries ||
                lists.keys() != s.keys)) {
    throw Error(
        fmt::format(
            "attention: key lists for batch {}, {} heads, {} queries, {} keys do not fit q and k with batch {}, "
            "{} heads, {} queries, {} keys",
            lists.batch(), lists.heads(), lists.queries(), lists.keys(), s.batch, s.heads, s.queries, s.keys),
        "make the lists for this shape");
  }
}

Blocks cut_forward(const Shape& shape, const lists::ListsView& lists) {
  // Few queries in all are cut into smaller blocks, or most threads would have none.
  const std::int64_t even = shape.batch * shape.heads * shape.queries / kLeastForwardUnits;
  const std::int64_t most =
      std::clamp(even / kLeastForwardQueries * kLeastForwardQueries, kLeastForwardQueries, kForwardQueries);
  Blocks work = cut(shape, lists, most, [](double cost, double total) {
    return std::max<std::int64_t>(1, std::llround(std::ceil(kForwardUnits * cost / total)));
  });
  // All keys are read in order, and need no ranges.
  const double bytes = static_cast<double>(shape.keys * shape.head_dim) * 2 * sizeof(float);
  for (Unit& unit : work.units) {
    if (work.blocks[sized(unit.first)].group >= 0) unit.ranges = ranges_of(work, unit, bytes);
  }
  return work;
}

Blocks cut_backward(const Shape& shape, const lists::ListsView& lists) {
  const double keys = static_cast<double>(std::max<std::int64_t>(1, shape.keys));
  const double scratch = keys * static_cast<double>(shape.head_dim) * 2 * sizeof(float);
  Blocks work = cut(shape, lists, kBackwardQueries, [&](double cost, double total) {
    const double share = kBackwardUnits * cost / total;
    const double parts =
        std::min({share, cost / (keys * kLeastPairsPerKey), 1 + kMostScratch / scratch * cost / total});
    // A power of two: five equal parts would keep two threads busy for the time of six.
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max(1.0, parts + 0.01))));
  });
  for (Unit& unit : work.units) {
    if (unit.cost >= keys * kLeastPairsPerKey) unit.ranges = ranges_of(work, unit, 2 * scratch);
  }
  return work;
}

}  // namespace reel::attention
