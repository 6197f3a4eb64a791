#include "reel/kernels/norm.h"

#include "reel/tape/operations.h"
#include "reel/tape/rows.h"

namespace reel::tape {

namespace {

const float* value_of(const Parameter* p) { return p == nullptr ? nullptr : p->value; }

bool fits(const Parameter* p, std::int64_t width) { return p == nullptr || p->size() == width; }

float* gradient_of(Tape& tape, Parameter* p) { return tape.wants(p) ? tape.gradient_to_add(*p) : nullptr; }

}  // namespace

Tensor layer_norm(Tape& tape, const Tensor& x, Affine affine, float eps) {
  const std::int64_t width = x.width();
  REEL_CHECK(fits(affine.weight, width) && fits(affine.bias, width));
  const bool wanted = tape.wants({x}) || tape.wants(affine.weight) || tape.wants(affine.bias);
  const Tensor y = tape.make(x.shape()), mean = tape.make({x.rows()}), rstd = tape.make({x.rows()});
  tape.run(work::Sweep{"layer_norm", x.size(), 8, 2}, [&] {
    kernels::layer_norm(rows_of(x, width), value_of(affine.weight), value_of(affine.bias), eps, rows_of(y, width),
                        mean.data(), rstd.data(), tape.threads());
  });
  tape.record(y, wanted,
              [=](Tape& back, const Tensor& dy) {
                const Tensor dx = back.make(x.shape());
                float* dweight = gradient_of(back, affine.weight);
                float* dbias = gradient_of(back, affine.bias);
                back.run(work::Sweep{"layer_norm", x.size(), 14, 3}, [&] {
                  kernels::layer_norm_backward(rows_of(x, width), value_of(affine.weight), mean.data(), rstd.data(),
                                               rows_of(dy, width), rows_of(dx, width), dweight, dbias, back.threads());
                });
                back.give(x, dx);
              },
              {affine.weight, affine.bias});
  return y;
}

Tensor rms_norm(Tape& tape, const Tensor& x, Parameter* weight, float eps, std::int64_t width) {
  if (width == 0) width = x.width();
  REEL_CHECK(x.size() % width == 0 && fits(weight, width));
  const Tensor y = tape.make(x.shape()), rstd = tape.make({x.size() / width});
  tape.run(work::Sweep{"rms_norm", x.size(), 4, 2}, [&] {
    kernels::rms_norm(rows_of(x, width), value_of(weight), eps, rows_of(y, width), rstd.data(), tape.threads());
  });
  tape.record(y, tape.wants({x}) || tape.wants(weight),
              [=](Tape& back, const Tensor& dy) {
                const Tensor dx = back.make(x.shape());
                float* dweight = gradient_of(back, weight);
                back.run(work::Sweep{"rms_norm", x.size(), 10, 3}, [&] {
                  kernels::rms_norm_backward(rows_of(x, width), value_of(weight), rstd.data(), rows_of(dy, width),
                                             rows_of(dx, width), dweight, back.threads());
                });
                back.give(x, dx);
              },
              {weight});
  return y;
}

}  // namespace reel::tape
