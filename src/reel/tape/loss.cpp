#include "reel/kernels/elementwise.h"
#include "reel/tape/operations.h"

namespace reel::tape {

Tensor mean_squared_error(Tape& tape, const Tensor& x, const Tensor& target) {
  REEL_CHECK(x.size() == target.size() && !tape.wants({target}));  // no gradient goes there
  const Tensor y = tape.make({1});
  tape.run(work::Sweep{"loss", x.size(), 3, 2}, [&] {
    y.data()[0] = static_cast<float>(kernels::mean_squared_error(x.span(), target.span(), tape.threads()));
  });
  tape.record(y, tape.wants({x}), [=](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"loss", x.size(), 2, 3}, [&] {
      kernels::mean_squared_error_backward(x.span(), target.span(), dy.item(), dx.span(), back.threads());
    });
    back.give(x, dx);
  });
  return y;
}

Tensor given_loss(Tape& tape, const Tensor& x, double value, const Tensor& gradient) {
  REEL_CHECK(x.size() == gradient.size());
  const Tensor y = tape.make({1});
  tape.run(work::Sweep{"loss", 1, 1, 1}, [&] { y.data()[0] = static_cast<float>(value); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"loss", x.size(), 1, 2},
             [&] { kernels::scale(dy.item(), gradient.span(), dx.span(), back.threads()); });
    back.give(x, dx);
  });
  return y;
}

}  // namespace reel::tape
