#include "reel/kernels/modulate.h"

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/norm.h"
#include "reel/tape/operations.h"
#include "reel/tape/rows.h"

namespace reel::tape {

namespace {

// Vector `which` of every item of m [items, n, width].
kernels::Rows vectors_of(const Tensor& m, int which) {
  const std::int64_t width = m.dim(-1);
  return {m.data() == nullptr ? nullptr : m.data() + which * width, sized(m.dim(0)), sized(width),
          sized(m.dim(1) * width)};
}

void check(const Tensor& x, const Tensor& m, std::initializer_list<int> vectors) {
  REEL_CHECK(m.shape().size() == 3 && m.width() == x.width() && x.rows() % m.dim(0) == 0);
  for (const int which : vectors) REEL_CHECK(which >= 0 && which < m.dim(1));
}

// Adds `rows` to vector `which` of the gradient of m: another operation may have used the same vector.
void add_to(Tape& tape, const Tensor& m, int which, const Tensor& rows) {
  const Tensor gradient = tape.gradient_to_add(m);
  tape.run(work::Sweep{"add", rows.size(), 1, 3}, [&] {
    const kernels::Rows into = vectors_of(gradient, which);
    for (std::size_t i = 0; i < into.rows; ++i) {
      kernels::axpy(1.0f, rows.span().subspan(i * into.width, into.width), {into.row(i), into.width}, tape.threads());
    }
  });
}

}  // namespace

Tensor norm_modulate(Tape& tape, const Tensor& x, const Tensor& m, int shift, int scale, float eps) {
  check(x, m, {shift, scale});
  const Tensor y = tape.make(x.shape()), mean = tape.make({x.rows()}), rstd = tape.make({x.rows()});
  tape.run(work::Sweep{"norm_modulate", x.size(), 10, 2}, [&] {
    kernels::layer_norm(rows_of(x), nullptr, nullptr, eps, rows_of(y), mean.data(), rstd.data(), tape.threads());
    kernels::modulate(rows_of(y), vectors_of(m, scale), vectors_of(m, shift), rows_of(y), tape.threads());
  });
  tape.record(y, tape.wants({x, m}), [=](Tape& back, const Tensor& dy) {
    const Tensor normed = back.make(x.shape()), dx = back.make(x.shape());
    const Tensor dscale = back.make({m.dim(0), m.width()}), dshift = back.make({m.dim(0), m.width()});
    back.run(work::Sweep{"norm_modulate", x.size(), 24, 3}, [&] {
      kernels::layer_norm(rows_of(x), nullptr, nullptr, eps, rows_of(normed), nullptr, nullptr, back.threads());
      kernels::modulate_backward(rows_of(normed), vectors_of(m, scale), rows_of(dy), rows_of(dx), rows_of(dscale),
                                 rows_of(dshift), back.threads());
      kernels::layer_norm_backward(rows_of(x), nullptr, mean.data(), rstd.data(), rows_of(dx), rows_of(dx), nullptr,
                                   nullptr, back.threads());
    });
    back.give(x, dx);
    if (m.needs_gradient()) {
      add_to(back, m, scale, dscale);
      add_to(back, m, shift, dshift);
    }
  });
  return y;
}

Tensor gated_residual(Tape& tape, const Tensor& x, const Tensor& r, const Tensor& m, int gate) {
  check(x, m, {gate});
  REEL_CHECK(x.size() == r.size());
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"gated_residual", x.size(), 2, 3},
           [&] { kernels::gate(rows_of(x), vectors_of(m, gate), rows_of(r), rows_of(y), tape.threads()); });
  tape.record(y, tape.wants({x, r, m}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dr = back.make(r.shape()), dgate = back.make({m.dim(0), m.width()});
    back.run(work::Sweep{"gated_residual", x.size(), 3, 3}, [&] {
      kernels::gate_backward(vectors_of(m, gate), rows_of(r), rows_of(dy), rows_of(dr), rows_of(dgate), back.threads());
    });
    back.give(x, dy);
    back.give(r, dr);
    if (m.needs_gradient()) add_to(back, m, gate, dgate);
  });
  return y;
}

}  // namespace reel::tape
