#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "tape/cost.h"
#include "tape/operations.h"

namespace reel::tape {

namespace {

struct Sizes {
  std::size_t rows, in, out;
};

Operation cost(const char* name, const Sizes& s) {
  const double rows = static_cast<double>(s.rows), in = static_cast<double>(s.in), out = static_cast<double>(s.out);
  return {.name = name, .flops = 2 * rows * in * out, .bytes = 4 * (rows * in + rows * out + in * out)};
}

void backward(Tape& tape, const Sizes& s, const Tensor& x, Parameter& w, Parameter* b, const Tensor& dy) {
  if (x.needs_gradient()) {
    const Tape::Slot dx = tape.slot(x);
    tape.run(cost("linear", s), [&] {
      kernels::gemm({.form = kernels::Form::kDyW,
                     .rows = s.rows,
                     .columns = s.in,
                     .depth = s.out,
                     .a = {dy.data(), s.out},
                     .b = {w.value, s.in},
                     .c = dx.into.data(),
                     .c_stride = s.in,
                     .accumulate = dx.accumulate},
                    tape.threads());
    });
    tape.settle(x, dx);
  }
  if (tape.wants(w)) {
    const Tape::ParameterSlot dw = tape.slot(w);
    tape.run(cost("linear", s), [&] {
      kernels::gemm({.form = kernels::Form::kDytX,
                     .rows = s.out,
                     .columns = s.in,
                     .depth = s.rows,
                     .a = {dy.data(), s.out},
                     .b = {x.data(), s.in},
                     .c = dw.into,
                     .c_stride = s.in,
                     .accumulate = dw.accumulate},
                    tape.threads());
    });
  }
  if (tape.wants(b)) {
    const Tape::ParameterSlot db = tape.slot(*b);
    tape.run(elementwise_cost("bias", dy.size(), 1, 1), [&] {
      kernels::column_sums({dy.data(), s.rows, s.out}, db.into,
                           db.accumulate ? kernels::Write::kAdd : kernels::Write::kOverwrite, tape.threads());
    });
  }
}

}  // namespace

Tensor linear(Tape& tape, const Tensor& x, Parameter& w, Parameter* b, Activation kind) {
  const Sizes s{static_cast<std::size_t>(x.rows()), static_cast<std::size_t>(x.width()),
                static_cast<std::size_t>(w.shape[0])};
  REEL_CHECK(w.size() == static_cast<std::int64_t>(s.in * s.out) &&
             (b == nullptr || b->size() == static_cast<std::int64_t>(s.out)));
  Shape shape = x.shape();
  shape.back() = w.shape[0];
  const bool wanted = tape.wants({x}) || tape.wants(w) || tape.wants(b);
  const Tensor y = tape.make(shape);
  const Tensor before = wanted && kind != Activation::kNone ? tape.make(shape) : Tensor();
  tape.run(cost("linear", s), [&] {
    kernels::gemm({.form = kernels::Form::kXWt,
                   .rows = s.rows,
                   .columns = s.out,
                   .depth = s.in,
                   .a = {x.data(), s.in},
                   .b = {w.value, s.in},
                   .c = y.data(),
                   .c_stride = s.out,
                   .bias = b == nullptr ? nullptr : b->value,
                   .activation = kind,
                   .before = before ? before.data() : nullptr},
                  tape.threads());
  });
  tape.record(y, wanted,
              [=, &w](Tape& back, const Tensor& dy) {
                if (kind == Activation::kNone) return backward(back, s, x, w, b, dy);
                const Tensor dbefore = back.make(dy.shape());
                back.run(elementwise_cost("activation", dy.size(), 20, 3), [&] {
                  kernels::activation_backward(kind, before.span(), dy.span(), dbefore.span(), back.threads());
                });
                backward(back, s, x, w, b, dbefore);
              },
              {&w, b});
  return y;
}

}  // namespace reel::tape
