#include "reel/kernels/elementwise.h"

#include <algorithm>

#include "reel/base/sized.h"
#include "reel/kernels/gather.h"
#include "reel/tape/operations.h"
#include "reel/tape/rows.h"

namespace reel::tape {

Tensor activation(Tape& tape, Activation kind, const Tensor& x) {
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"activation", x.size(), 10, 2},
           [&] { kernels::activation(kind, x.span(), y.span(), tape.threads()); });
  tape.record(y, tape.wants({x}), [=](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"activation", x.size(), 20, 3},
             [&] { kernels::activation_backward(kind, x.span(), dy.span(), dx.span(), back.threads()); });
    back.give(x, dx);
  });
  return y;
}

Tensor add(Tape& tape, const Tensor& a, const Tensor& b) {
  REEL_CHECK(a.size() == b.size());
  const Tensor y = tape.make(a.shape());
  tape.run(work::Sweep{"add", a.size(), 1, 3}, [&] { kernels::add(a.span(), b.span(), y.span(), tape.threads()); });
  tape.record(y, tape.wants({a, b}), [a = a.gradient_only(), b = b.gradient_only()](Tape& back, const Tensor& dy) {
    back.give(a, dy);
    back.give(b, dy);
  });
  return y;
}

Tensor scale(Tape& tape, float factor, const Tensor& x) {
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"scale", x.size(), 1, 2}, [&] { kernels::scale(factor, x.span(), y.span(), tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"scale", x.size(), 1, 2},
             [&] { kernels::scale(factor, dy.span(), dx.span(), back.threads()); });
    back.give(x, dx);
  });
  return y;
}

Tensor add_table(Tape& tape, const Tensor& x, Parameter& table) {
  const std::int64_t width = table.size(), rows = x.size() / width;
  REEL_CHECK(rows * width == x.size());
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"add_table", x.size(), 1, 2}, [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      kernels::add(x.span().subspan(sized(row * width), sized(width)), table.values(),
                   y.span().subspan(sized(row * width), sized(width)), tape.threads());
    }
  });
  tape.record(y, tape.wants({x}) || tape.wants(table),
              [=, &table, x = x.gradient_only()](Tape& back, const Tensor& dy) {
                if (back.wants(table)) {
                  const Tape::ParameterSlot slot = back.slot(table);
                  back.run(work::Sweep{"add_table", dy.size(), 1, 1}, [&] {
                    kernels::column_sums({dy.data(), sized(rows), sized(width)}, slot.into,
                                         slot.accumulate ? kernels::Write::kAdd : kernels::Write::kOverwrite,
                                         back.threads());
                  });
                }
                back.give(x, dy);
              },
              {&table});
  return y;
}

Tensor add_constant(Tape& tape, const Tensor& x, std::shared_ptr<const Buffer<float>> values) {
  const std::size_t period = values->size();
  REEL_CHECK(x.size() == 0 || (period > 0 && sized(x.size()) % period == 0));
  const Tensor y = tape.make(x.shape());
  tape.run(work::Sweep{"add_constant", x.size(), 1, 2}, [&] {
    for (std::size_t at = 0; at < sized(x.size()); at += period) {
      kernels::add(x.span().subspan(at, period), *values, y.span().subspan(at, period), tape.threads());
    }
  });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) { back.give(x, dy); });
  return y;
}

Tensor repeat_rows(Tape& tape, const Tensor& x, std::int64_t times) {
  std::vector<std::int32_t> index(sized(x.rows() * times));
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int32_t>(i / sized(times));
  return gather_rows(tape, x, std::move(index));
}

Tensor gather_rows(Tape& tape, const Tensor& x, std::vector<std::int32_t> index) {
  const Tensor y = tape.make({static_cast<std::int64_t>(index.size()), x.width()});
  tape.run(work::Sweep{"gather", y.size(), 0, 2},
           [&] { kernels::gather_rows(rows_of(x), index, rows_of(y), tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only(), index = std::move(index)](Tape& back, const Tensor& dy) {
    const Tensor dx = back.gradient_to_add(x);
    back.run(work::Sweep{"scatter", dy.size(), 1, 3}, [&] {
      kernels::scatter_add_rows(rows_of(dy), index, {dx.data(), sized(x.rows()), sized(x.width())}, back.threads());
    });
  });
  return y;
}

}  // namespace reel::tape
