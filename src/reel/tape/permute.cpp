#include <algorithm>
#include <array>
#include <cstring>

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/tape/operations.h"

namespace reel::tape {

namespace {

// A copy between strided layouts: extents and, for both sides, strides in floats. Trailing axes that lie together on
// both sides are merged first, so that what is innermost is as long as it can be.
struct Copy {
  Shape extents, from, to;
};

Copy simplified(Copy c) {
  for (std::size_t i = c.extents.size(); i-- > 0;) {  // axes of one element say nothing
    if (c.extents[i] == 1 && c.extents.size() > 1) {
      c.extents.erase(c.extents.begin() + i);
      c.from.erase(c.from.begin() + i);
      c.to.erase(c.to.begin() + i);
    }
  }
  for (std::size_t i = c.extents.size() - 1; i > 0; --i) {
    if (c.from[i - 1] == c.from[i] * c.extents[i] && c.to[i - 1] == c.to[i] * c.extents[i]) {
      c.extents[i - 1] *= c.extents[i];
      c.from[i - 1] = c.from[i];
      c.to[i - 1] = c.to[i];
      c.extents.erase(c.extents.begin() + i);
      c.from.erase(c.from.begin() + i);
      c.to.erase(c.to.begin() + i);
    }
  }
  return c;
}

void copy(const Copy& whole, const float* from, float* to, Threads& threads,
          kernels::Write write = kernels::Write::kOverwrite) {
  const Copy c = simplified(whole);
  const std::size_t axes = c.extents.size();
  const std::int64_t inner = c.extents.back(), inner_from = c.from.back(), inner_to = c.to.back();
  const std::int64_t lines = elements(c.extents) / std::max<std::int64_t>(inner, 1);
  constexpr std::int64_t kChunk = 1 << 15;  // floats: enough work for a thread, by shape alone
  const std::int64_t lines_per_chunk = std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(inner, 1));
  threads.run((lines + lines_per_chunk - 1) / lines_per_chunk, [&](std::int64_t chunk, int) {
    const std::int64_t end = std::min(lines, (chunk + 1) * lines_per_chunk);
    for (std::int64_t line = chunk * lines_per_chunk; line < end; ++line) {
      std::int64_t rest = line;
      const float* source = from;
      float* target = to;
      for (std::size_t axis = axes - 1; axis-- > 0;) {
        const std::int64_t at = rest % c.extents[axis];
        rest /= c.extents[axis];
        source += at * c.from[axis];
        target += at * c.to[axis];
      }
      if (write == kernels::Write::kAdd) {
        for (std::int64_t i = 0; i < inner; ++i) target[i * inner_to] += source[i * inner_from];
      } else if (inner_from == 1 && inner_to == 1) {
        std::memcpy(target, source, sized(inner) * sizeof(float));
      } else {
        for (std::int64_t i = 0; i < inner; ++i) target[i * inner_to] = source[i * inner_from];
      }
    }
  });
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Copy reversed(Copy c) {
  std::swap(c.from, c.to);
  return c;
}

// y is a copy of x; whatever of x it leaves out gets no gradient. Axes are ordered as in y.
Tensor strided_copy(Tape& tape, const Tensor& x, Shape shape, Copy c, const char* name) {
  const Tensor y = tape.make(std::move(shape));
  tape.run(work::Sweep{name, y.size(), 0, 2}, [&] { copy(c, x.data(), y.data(), tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = dy.size() == x.size() ? back.make(x.shape()) : back.zeros(x.shape());
    back.run(work::Sweep{name, dy.size(), 0, 2}, [&] { copy(reversed(c), dy.data(), dx.data(), back.threads()); });
    back.give(x, dx);
  });
  return y;
}

}  // namespace

Tensor permute(Tape& tape, const Tensor& x, const std::vector<int>& order) {
  REEL_CHECK(order.size() == x.shape().size());
  const Shape strides = contiguous_strides(x.shape());
  Shape shape, from;
  for (const int axis : order) {
    shape.push_back(x.dim(axis));
    from.push_back(strides[sized(axis)]);
  }
  Copy c{shape, from, contiguous_strides(shape)};
  return strided_copy(tape, x, std::move(shape), std::move(c), "permute");
}

Tensor slice(Tape& tape, const Tensor& x, int axis, std::int64_t first, std::int64_t count) {
  const std::size_t at = sized(axis < 0 ? axis + static_cast<int>(x.shape().size()) : axis);
  REEL_CHECK(first >= 0 && count >= 0 && first + count <= x.shape()[at]);
  Shape shape = x.shape();
  shape[at] = count;
  const Shape from = contiguous_strides(x.shape());
  const Copy c{shape, from, contiguous_strides(shape)};
  const std::int64_t offset = elements(shape) == 0 ? 0 : first * from[at];
  const Tensor y = tape.make(shape);
  tape.run(work::Sweep{"slice", y.size(), 0, 2}, [&] { copy(c, x.data() + offset, y.data(), tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.gradient_to_add(x);  // slices of one tensor add to one gradient
    back.run(work::Sweep{"slice", dy.size(), 1, 3},
             [&] { copy(reversed(c), dy.data(), dx.data() + offset, back.threads(), kernels::Write::kAdd); });
  });
  return y;
}

Tensor concatenate(Tape& tape, const std::vector<Tensor>& parts, int axis) {
  REEL_CHECK(!parts.empty());
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  const std::size_t at = sized(axis < 0 ? axis + static_cast<int>(shape.size()) : axis);
  shape[at] = 0;
  bool wanted = false;
  for (const Tensor& part : parts) {
    shape[at] += part.shape()[at];
    wanted = wanted || tape.wants({part});
  }
  const Shape strides = contiguous_strides(shape);
  const std::int64_t step = elements(shape) == 0 ? 0 : strides[at];
  const Tensor y = tape.make(shape);
  tape.run(work::Sweep{"concatenate", y.size(), 0, 2}, [&] {
    float* to = y.data();
    for (const Tensor& part : parts) {
      copy({part.shape(), contiguous_strides(part.shape()), strides}, part.data(), to, tape.threads());
      to += part.shape()[at] * step;
    }
  });
  std::vector<Tensor> inputs;
  inputs.reserve(parts.size());
  for (const Tensor& part : parts) inputs.push_back(part.gradient_only());
  tape.record(y, wanted, [=](Tape& back, const Tensor& dy) {
    std::int64_t offset = 0;
    for (const Tensor& x : inputs) {
      const Tensor dx = back.make(x.shape());
      back.run(work::Sweep{"concatenate", dx.size(), 0, 2}, [&] {
        copy({x.shape(), strides, contiguous_strides(x.shape())}, dy.data() + offset, dx.data(), back.threads());
      });
      back.give(x, dx);
      offset += x.shape()[at] * step;
    }
  });
  return y;
}

Tensor pad(Tape& tape, const Tensor& x, int axis, std::int64_t count) {
  if (count == 0) return x;
  const std::size_t at = sized(axis < 0 ? axis + static_cast<int>(x.shape().size()) : axis);
  Shape shape = x.shape();
  shape[at] += count;
  const Copy c{x.shape(), contiguous_strides(x.shape()), contiguous_strides(shape)};
  const Tensor y = tape.zeros(shape);
  tape.run(work::Sweep{"pad", y.size(), 0, 2}, [&] { copy(c, x.data(), y.data(), tape.threads()); });
  tape.record(y, tape.wants({x}), [=, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    const Tensor dx = back.make(x.shape());
    back.run(work::Sweep{"pad", dx.size(), 0, 2}, [&] { copy(reversed(c), dy.data(), dx.data(), back.threads()); });
    back.give(x, dx);
  });
  return y;
}

Tensor patchify(Tape& tape, const Tensor& x, const std::array<std::int64_t, 3>& patch) {
  REEL_CHECK(x.shape().size() == 5);
  const Shape s = contiguous_strides(x.shape());
  const auto [pt, ph, pw] = patch;
  const std::int64_t batch = x.dim(0), channels = x.dim(1);
  const std::int64_t t = x.dim(2) / pt, h = x.dim(3) / ph, w = x.dim(4) / pw;
  const Shape extents = {batch, t, h, w, channels, pt, ph, pw};
  Copy c{extents, {s[0], pt * s[2], ph * s[3], pw * s[4], s[1], s[2], s[3], s[4]}, contiguous_strides(extents)};
  return strided_copy(tape, x, {batch, t * h * w, channels * pt * ph * pw}, std::move(c), "patchify");
}

Tensor unpatchify(Tape& tape, const Tensor& x, const std::array<std::int64_t, 3>& grid,
                  const std::array<std::int64_t, 3>& patch) {
  const auto [t, h, w] = grid;
  const auto [pt, ph, pw] = patch;
  const std::int64_t batch = x.dim(0), channels = x.width() / (pt * ph * pw);
  REEL_CHECK(x.size() == batch * t * h * w * pt * ph * pw * channels);
  const Tensor y = permute(tape, x.reshaped({batch, t, h, w, pt, ph, pw, channels}), {0, 7, 1, 4, 2, 5, 3, 6});
  return y.reshaped({batch, channels, t * pt, h * ph, w * pw});
}

}  // namespace reel::tape
