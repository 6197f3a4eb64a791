#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gemm.h"
#include "reel/tape/operations.h"

namespace reel::tape {

namespace {

struct Sizes {
  std::size_t rows, in, out;
};

work::Product product(work::Form form, std::size_t m, std::size_t n, std::size_t k) {
  return {form, static_cast<std::int64_t>(m), static_cast<std::int64_t>(n), static_cast<std::int64_t>(k)};
}

void forward(Tape& tape, const Sizes& s, const Tensor& x, const Parameter& w, const Parameter* b, Activation kind,
             const Tensor& before, const Tensor& y) {
  tape.run(product(work::Form::kXWt, s.rows, s.out, s.in), [&] {
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
}

void input_gradient(Tape& tape, const Sizes& s, const Parameter& w, const Tensor& dy, const Tape::Slot& dx) {
  tape.run(product(work::Form::kDyW, s.rows, s.in, s.out), [&] {
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
}

void parameter_gradients(Tape& tape, const Sizes& s, const Tensor& x, Parameter& w, Parameter* b, const Tensor& dy) {
  if (tape.wants(w)) {
    const Tape::ParameterSlot dw = tape.slot(w);
    tape.run(product(work::Form::kDytX, s.out, s.in, s.rows), [&] {
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
    tape.run(work::Sweep{"bias", dy.size(), 1, 1}, [&] {
      kernels::column_sums({dy.data(), s.rows, s.out}, db.into,
                           db.accumulate ? kernels::Write::kAdd : kernels::Write::kOverwrite, tape.threads());
    });
  }
}

void backward(Tape& tape, const Sizes& s, const Tensor& x, Parameter& w, Parameter* b, const Tensor& dy) {
  if (x.needs_gradient()) {
    const Tape::Slot dx = tape.slot(x);
    input_gradient(tape, s, w, dy, dx);
    tape.settle(x, dx);
  }
  parameter_gradients(tape, s, x, w, b, dy);
}

void activation_backward(Tape& tape, Activation kind, const Tensor& before, const Tensor& dy, const Tensor& dbefore) {
  tape.run(work::Sweep{"activation", dy.size(), 20, 3},
           [&] { kernels::activation_backward(kind, before.span(), dy.span(), dbefore.span(), tape.threads()); });
}

Sizes sizes(const Shape& x, const Parameter& w, const Parameter* b) {
  const std::int64_t in = x.back(), rows = elements(x) / in;
  REEL_CHECK(w.size() == in * w.shape[0] && (b == nullptr || b->size() == w.shape[0]));
  return {sized(rows), sized(in), sized(w.shape[0])};
}

Shape with_width(Shape shape, const Sizes& s) {
  shape.back() = static_cast<std::int64_t>(s.out);
  return shape;
}

}  // namespace

Tensor linear(Tape& tape, const Tensor& x, Parameter& w, Parameter* b, Activation kind) {
  const Sizes s = sizes(x.shape(), w, b);
  const bool wanted = tape.wants({x}) || tape.wants(w) || tape.wants(b);
  const Tensor y = tape.make(with_width(x.shape(), s));
  const Tensor before = wanted && kind != Activation::kNone ? tape.make(y.shape()) : Tensor();
  forward(tape, s, x, w, b, kind, before, y);
  tape.record(y, wanted,
              [=, &w](Tape& back, const Tensor& dy) {
                if (kind == Activation::kNone) return backward(back, s, x, w, b, dy);
                const Tensor dbefore = back.make(dy.shape());
                activation_backward(back, kind, before, dy, dbefore);
                backward(back, s, x, w, b, dbefore);
              },
              {&w, b});
  return y;
}

Tensor mlp(Tape& tape, const Tensor& x, Parameter& w1, Parameter* b1, Activation kind, Parameter& w2, Parameter* b2) {
  const Sizes s1 = sizes(x.shape(), w1, b1);
  const Shape inner = with_width(x.shape(), s1);
  const Sizes s2 = sizes(inner, w2, b2);
  const bool first = tape.wants({x}) || tape.wants(w1) || tape.wants(b1);
  const bool wanted = first || tape.wants(w2) || tape.wants(b2);
  const Tensor y = tape.make(with_width(inner, s2));
  const Tensor before = wanted ? tape.make(inner) : Tensor();
  {
    const Tensor hidden = tape.make(inner);
    forward(tape, s1, x, w1, b1, kind, before, hidden);
    forward(tape, s2, hidden, w2, b2, Activation::kNone, Tensor(), y);
  }
  tape.record(y, wanted,
              [=, &w1, &w2](Tape& back, const Tensor& dy) {
                const Tensor hidden = back.make(inner);
                back.run(work::Sweep{"activation", hidden.size(), 20, 2},
                         [&] { kernels::activation(kind, before.span(), hidden.span(), back.threads()); });
                parameter_gradients(back, s2, hidden, w2, b2, dy);
                if (!first) return;
                const Tensor& dhidden = hidden;  // its values have been used
                input_gradient(back, s2, w2, dy, {dhidden, false});
                activation_backward(back, kind, before, dhidden, dhidden);
                backward(back, s1, x, w1, b1, dhidden);
              },
              {&w1, b1, &w2, b2});
  return y;
}

}  // namespace reel::tape
