#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/tape/operations.h"

namespace reel::tape {

Tensor rope(Tape& tape, const Tensor& x, const std::shared_ptr<const kernels::RopeAngles>& angles) {
  const std::int64_t heads = x.dim(-2), head_dim = x.dim(-1), tokens = x.size() / (heads * head_dim);
  const std::int64_t turned = angles->heads < 0 ? heads : std::min(angles->heads, heads);
  REEL_CHECK(static_cast<std::int64_t>(angles->cos.size()) == angles->period * head_dim / 2);
  // The kernel counts tokens through: each batch entry has to begin with the table.
  REEL_CHECK(x.dim(-3) == tokens || x.dim(-3) % angles->period == 0);
  // Heads [first, first + count) of every token.
  const auto part = [=](const Tensor& t, std::int64_t first, std::int64_t count) {
    return kernels::Rows(t.data() + first * head_dim, sized(tokens), sized(count * head_dim), sized(heads * head_dim));
  };
  const auto turn = [=](const Tensor& from, const Tensor& to, auto rotation, Threads& threads) {
    if (turned > 0) {
      rotation(part(from, 0, turned), sized(turned), angles->table(), angles->pairing, part(to, 0, turned), threads);
    }
    if (turned < heads)
      kernels::copy_rows(part(from, turned, heads - turned), part(to, turned, heads - turned), threads);
  };
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"rope", x.size(), 3, 2}, [&] { turn(x, y, kernels::rope, tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"rope", x.size(), 3, 2}, [&] { turn(dy, dx, kernels::rope_backward, back.threads()); });
    back.give(x, dx);
  });
  return y;
}

}  // namespace reel::tape
