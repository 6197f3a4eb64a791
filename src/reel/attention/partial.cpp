#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/attention/attention.h"
#include "reel/attention/cut_blocks.h"

namespace reel::attention {

void merge(const Shape& shape, const Partial& into, const Partial& other, Threads& threads) {
  check_shape(shape);
  if (shape.batch * shape.heads * shape.queries == 0) return;
  check_view("out", into.out, shape, shape.queries);
  check_view("out of the other part", other.out, shape, shape.queries);
  check_memory("lse", into.lse);
  check_memory("lse of the other part", other.lse);
  constexpr std::int64_t kRows = 256;
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  const std::int64_t pieces = (shape.queries + kRows - 1) / kRows;
  threads.run(shape.batch * shape.heads * pieces, [&](std::int64_t chunk, int) {
    const std::int64_t head = chunk / pieces, b = head / shape.heads, h = head % shape.heads;
    const std::int64_t first = chunk % pieces * kRows, last = std::min(first + kRows, shape.queries);
    for (std::int64_t i = first; i < last; ++i) {
      float& mine = into.lse[head * shape.queries + i];
      const float theirs = other.lse[head * shape.queries + i];
      float* out = into.out.at(b, h, i);
      const float* add = other.out.at(b, h, i);
      if (theirs == kNothing) continue;
      if (mine == kNothing) {
        std::copy(add, add + shape.head_dim, out);
        mine = theirs;
        continue;
      }
      const float largest = std::max(mine, theirs), a = std::exp(mine - largest), c = std::exp(theirs - largest);
      const float share = a / (a + c), rest = c / (a + c);
      for (std::int64_t column = 0; column < shape.head_dim; ++column)
        out[column] = share * out[column] + rest * add[column];
      mine = largest + std::log(a + c);
    }
  });
}

}  // namespace reel::attention
