// A field over three axes, cut over ranks: the weather at some heights, latitudes and longitudes.
//
// Every layer looks along one axis after another (axial attention): along the heights above a place, along a parallel,
// along a meridian. Whatever the axis, the field is cut along another one, and a switch between them is one all-to-all.
// The model's own lines do not know how many ranks there are.
//
//   mpirun -n 3 three_axes
#include <cmath>
#include <cstdio>

#include "reel/base/random.h"
#include "reel/parallel.h"

using namespace reel;
using layout::Cut;
using tape::Tape;
using tape::Tensor;

namespace {

constexpr std::int64_t kExtent[] = {7, 10, 13}, kWidth = 16;  // none divides by the number of ranks: no matter

// x [heights, latitudes, longitudes, width] attends along `axis`, whole on this rank.
Tensor look_along(Tape& tape, const Tensor& x, int axis) {
  std::vector<int> order = {0, 1, 2, 3};
  std::swap(order[static_cast<std::size_t>(axis)], order[2]);  // its own opposite
  const Tensor y = tape::permute(tape, x, order);
  const Tensor heads = y.reshaped({y.dim(0) * y.dim(1), y.dim(2), 2, kWidth / 2});
  const Tensor seen = tape::attention(tape, heads, heads, heads).reshaped(y.shape());
  return tape::add(tape, x, tape::permute(tape, seen, order));
}

struct Result {
  double loss = 0, gradient = 0;  // the latter: sum of what is in it, without signs
};

Result pass(comm::Comm& ranks) {
  Cut cut[3];
  for (int axis = 0; axis < 3; ++axis) cut[axis] = layout::even_cut(kExtent[axis], ranks.size());
  std::vector<float> field(static_cast<std::size_t>(kExtent[0] * kExtent[1] * kExtent[2] * kWidth));
  Random(1).fill_normal(field);
  Threads threads(1);
  tape::Pool pool;
  Tape tape(threads, pool, {});
  const Tensor whole = tape.differentiable({kExtent[0], kExtent[1], kExtent[2], kWidth}, field);
  int at = 1;  // where the field is cut
  Tensor x = parallel::split(tape, ranks, whole, at, cut[at]);
  for (int layer = 0; layer < 2; ++layer) {
    tape.set_layer(layer);
    for (const int axis : {0, 2, 1}) {
      if (axis == at) {
        const int to = (at + 1) % 3;
        x = parallel::switch_shard(tape, ranks, x, at, cut[at], to, cut[to]);
        at = to;
      }
      x = look_along(tape, x, axis);
    }
  }
  x = parallel::gather(tape, ranks, x, at, cut[at]);
  const Tensor loss = tape::mean_squared_error(tape, x, tape.zeros(x.shape()));
  Result result;
  result.loss = loss.item();
  tape.backward(loss);
  for (const float g : tape.gradient(whole).span()) result.gradient += std::abs(g);
  return result;
}

}  // namespace

int main() {
  comm::Session session;
  comm::Comm& ranks = session.world();
  const auto self = comm::make_self();
  const Result one = pass(*self), many = pass(ranks);
  if (ranks.rank() == 0) {
    std::printf("one rank: loss %.6f, gradient %.6f\n%d ranks: loss %.6f, gradient %.6f, %lld bytes sent by rank 0\n",
                one.loss, one.gradient, ranks.size(), many.loss, many.gradient,
                static_cast<long long>(ranks.shared().traffic.bytes_sent()));
  }
  const bool same = std::abs(many.loss - one.loss) <= 1e-5 * one.loss &&
                    std::abs(many.gradient - one.gradient) <= 1e-5 * one.gradient;
  return same ? 0 : 1;
}
