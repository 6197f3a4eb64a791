// The operations of operations.h once more, slow and obvious: double precision, plain loops, forward only. Gradients
// need no reference of their own; the tests differentiate these numerically. Names, shapes and meanings as there.
// For tests only.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/reference.h"
#include "reel/lists/key_lists.h"
#include "reel/tape/operations.h"

namespace reel::tape::reference {

struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(Shape s) : shape(std::move(s)), values(sized(elements(shape))) {}
  Array(Shape s, std::vector<double> v) : shape(std::move(s)), values(std::move(v)) {}

  std::int64_t width() const { return shape.back(); }
  std::int64_t rows() const { return elements(shape) / shape.back(); }
  std::span<const double> row(std::int64_t i) const {
    return std::span(values).subspan(sized(i * width()), sized(width()));
  }
  double& at(const Shape& index) { return values[offset(index)]; }
  double at(const Shape& index) const { return values[offset(index)]; }
  std::size_t offset(const Shape& index) const {
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      REEL_CHECK(index[i] >= 0 && index[i] < shape[i]);
      flat = flat * shape[i] + index[i];
    }
    return sized(flat);
  }
};

// f(index) for every index of a shape, the last axis fastest.
inline void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& f) {
  Shape index(shape.size());
  for (std::int64_t i = 0; i < elements(shape); ++i) {
    for (std::int64_t axis = static_cast<std::int64_t>(shape.size()), rest = i; axis-- > 0;) {
      index[sized(axis)] = rest % shape[sized(axis)];
      rest /= shape[sized(axis)];
    }
    f(index);
  }
}

// y with row i = f(i).
template <class F>
Array by_rows(Shape shape, const F& f) {
  Array y(std::move(shape));
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    const std::vector<double> row = f(i);
    REEL_CHECK(static_cast<std::int64_t>(row.size()) == y.width());
    std::copy(row.begin(), row.end(), y.values.begin() + i * y.width());
  }
  return y;
}

inline std::span<const double> values_or_none(const Array* a) {
  return a == nullptr ? std::span<const double>() : std::span<const double>(a->values);
}

inline Array activation(Activation kind, Array x) {
  for (double& v : x.values) v = kernels::reference::activation(kind, v);
  return x;
}

inline Array linear(const Array& x, const Array& w, const Array* b, Activation kind = Activation::kNone) {
  Shape shape = x.shape;
  shape.back() = w.shape[0];
  const Array flat({w.shape[0], x.width()}, w.values);
  return activation(kind, by_rows(std::move(shape), [&](std::int64_t i) {
                      std::vector<double> y;
                      for (std::int64_t o = 0; o < flat.shape[0]; ++o) {
                        double sum = b == nullptr ? 0.0 : b->values[sized(o)];
                        for (std::int64_t c = 0; c < x.width(); ++c) sum += x.row(i)[c] * flat.row(o)[c];
                        y.push_back(sum);
                      }
                      return y;
                    }));
}

// b is repeated over the leading axes: add, add_table and add_constant in one.
inline Array add(Array a, const Array& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i % b.values.size()];
  return a;
}

inline Array scale(double factor, Array x) {
  for (double& v : x.values) v *= factor;
  return x;
}

inline Array gather_rows(const Array& x, const std::vector<std::int32_t>& index) {
  return by_rows({static_cast<std::int64_t>(index.size()), x.width()}, [&](std::int64_t i) {
    const auto row = x.row(index[sized(i)]);
    return std::vector<double>(row.begin(), row.end());
  });
}

inline Array repeat_rows(const Array& x, std::int64_t times) {
  return by_rows({x.rows() * times, x.width()}, [&](std::int64_t i) {
    const auto row = x.row(i / times);
    return std::vector<double>(row.begin(), row.end());
  });
}

inline Array layer_norm(const Array& x, const Array* weight, const Array* bias, double eps) {
  return by_rows(x.shape, [&](std::int64_t i) {
    return kernels::reference::layer_norm(x.row(i), values_or_none(weight), values_or_none(bias), eps);
  });
}

inline Array rms_norm(const Array& x, const Array* weight, double eps, std::int64_t width = 0) {
  if (width == 0) width = x.width();
  const Array narrow({elements(x.shape) / width, width}, x.values);
  Array y = by_rows(narrow.shape, [&](std::int64_t i) {
    return kernels::reference::rms_norm(narrow.row(i), values_or_none(weight), eps);
  });
  return {x.shape, std::move(y.values)};
}

inline Array norm_modulate(const Array& x, const Array& m, int shift, int scale, double eps) {
  const std::int64_t rows_per_item = x.rows() / m.shape[0];
  const Array normed = layer_norm(x, nullptr, nullptr, eps);
  return by_rows(x.shape, [&](std::int64_t i) {
    std::vector<double> y;
    for (std::int64_t c = 0; c < x.width(); ++c) {
      const std::int64_t item = i / rows_per_item;
      y.push_back(normed.row(i)[c] * (1.0 + m.at({item, scale, c})) + m.at({item, shift, c}));
    }
    return y;
  });
}

inline Array gated_residual(const Array& x, const Array& r, const Array& m, int gate) {
  const std::int64_t rows_per_item = x.rows() / m.shape[0];
  return by_rows(x.shape, [&](std::int64_t i) {
    std::vector<double> y;
    for (std::int64_t c = 0; c < x.width(); ++c) {
      y.push_back(x.row(i)[c] + m.at({i / rows_per_item, gate, c}) * r.row(i)[c]);
    }
    return y;
  });
}

// x [batch, tokens, heads, head_dim]
inline Array rope(const Array& x, const kernels::RopeAngles& angles) {
  const std::int64_t tokens = x.shape[1], heads = x.shape[2], half = x.shape[3] / 2;
  return by_rows(x.shape, [&](std::int64_t i) {  // rows are (batch entry, token, head)
    const std::int64_t head = i % heads, token = i / heads % tokens;
    if (angles.heads >= 0 && head >= angles.heads) return std::vector<double>(x.row(i).begin(), x.row(i).end());
    const std::int64_t at = token % angles.period * half;
    const std::vector<double> cos(angles.cos.begin() + at, angles.cos.begin() + at + half);
    const std::vector<double> sin(angles.sin.begin() + at, angles.sin.begin() + at + half);
    return kernels::reference::rope(x.row(i), cos, sin, angles.pairing);
  });
}

// One query over some keys: rows of k and v given by `tokens`.
inline std::vector<double> attend(std::span<const double> q, const Array& k, const Array& v,
                                  const std::vector<std::int64_t>& tokens) {
  std::vector<double> scores;
  for (const std::int64_t j : tokens) {
    double sum = 0;
    for (std::size_t c = 0; c < q.size(); ++c) sum += q[c] * k.row(j)[c];
    scores.push_back(sum / std::sqrt(static_cast<double>(q.size())));
  }
  const std::vector<double> p = kernels::reference::softmax(scores);
  std::vector<double> out(q.size());
  for (std::size_t j = 0; j < tokens.size(); ++j) {
    for (std::size_t c = 0; c < q.size(); ++c) out[c] += p[j] * v.row(tokens[j])[c];
  }
  return out;
}

inline Array attention(const Array& q, const Array& k, const Array& v, const lists::KeyLists* lists = nullptr) {
  const std::int64_t queries = q.shape[1], heads = q.shape[2], keys = k.shape[1];
  return by_rows(q.shape, [&](std::int64_t i) {
    const std::int64_t head = i % heads, query = i / heads % queries, b = i / heads / queries;
    std::vector<std::int64_t> tokens;
    const auto attends_to = [&](std::int64_t key) {
      if (lists == nullptr || lists->dense(b, head)) return true;
      const auto& starts = lists->group_starts;
      const std::int64_t group = std::upper_bound(starts.begin(), starts.end(), query) - starts.begin() - 1;
      const auto list = lists->list(b, head, group);
      return std::find(list.begin(), list.end(), key / lists->granularity) != list.end();
    };
    for (std::int64_t j = 0; j < keys; ++j) {
      if (attends_to(j)) tokens.push_back((b * keys + j) * heads + head);
    }
    return attend(q.row(i), k, v, tokens);
  });
}

inline Array attention_packed(const Array& q, const Array& k, const Array& v, const std::vector<std::int64_t>& starts) {
  const std::int64_t queries = q.shape[1], heads = q.shape[2];
  return by_rows(q.shape, [&](std::int64_t i) {
    const std::size_t b = sized(i / heads / queries);
    std::vector<std::int64_t> tokens;
    for (std::int64_t j = starts[b]; j < starts[b + 1]; ++j) tokens.push_back(j * heads + i % heads);
    return attend(q.row(i), k, v, tokens);
  });
}

inline Array permute(const Array& x, const std::vector<int>& order) {
  Shape shape;
  for (const int axis : order) shape.push_back(x.shape[sized(axis)]);
  Array y(shape);
  for_each_index(shape, [&](const Shape& index) {
    Shape from(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) from[sized(order[i])] = index[i];
    y.at(index) = x.at(from);
  });
  return y;
}

inline Array slice(const Array& x, std::size_t axis, std::int64_t first, std::int64_t count) {
  Shape shape = x.shape;
  shape[axis] = count;
  Array y(shape);
  for_each_index(shape, [&](const Shape& index) {
    Shape from = index;
    from[axis] += first;
    y.at(index) = x.at(from);
  });
  return y;
}

inline Array pad(const Array& x, std::size_t axis, std::int64_t count) {
  Shape shape = x.shape;
  shape[axis] += count;
  Array y(shape);
  for_each_index(x.shape, [&](const Shape& index) { y.at(index) = x.at(index); });
  return y;
}

// Patches of p[0] x p[1] x p[2]; g[0] x g[1] x g[2] of them.
inline std::int64_t token_of(const Shape& i, const std::array<std::int64_t, 3>& g,
                             const std::array<std::int64_t, 3>& p) {
  return (i[2] / p[0] * g[1] + i[3] / p[1]) * g[2] + i[4] / p[2];
}
inline std::int64_t place_in_patch(const Shape& i, const std::array<std::int64_t, 3>& p) {
  return (i[2] % p[0] * p[1] + i[3] % p[1]) * p[2] + i[4] % p[2];
}

inline Array patchify(const Array& x, const std::array<std::int64_t, 3>& p) {
  const std::int64_t channels = x.shape[1], volume = p[0] * p[1] * p[2];
  const std::array<std::int64_t, 3> g = {x.shape[2] / p[0], x.shape[3] / p[1], x.shape[4] / p[2]};
  Array y({x.shape[0], g[0] * g[1] * g[2], channels * volume});
  for_each_index({x.shape[0], channels, g[0] * p[0], g[1] * p[1], g[2] * p[2]}, [&](const Shape& i) {
    y.at({i[0], token_of(i, g, p), i[1] * volume + place_in_patch(i, p)}) = x.at(i);
  });
  return y;
}

inline Array unpatchify(const Array& x, const std::array<std::int64_t, 3>& g, const std::array<std::int64_t, 3>& p) {
  const std::int64_t channels = x.width() / (p[0] * p[1] * p[2]);
  Array y({x.shape[0], channels, g[0] * p[0], g[1] * p[1], g[2] * p[2]});
  for_each_index(y.shape, [&](const Shape& i) {
    y.at(i) = x.at({i[0], token_of(i, g, p), place_in_patch(i, p) * channels + i[1]});
  });
  return y;
}

inline Array mean_squared_error(const Array& x, const Array& target) {
  double sum = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) sum += std::pow(x.values[i] - target.values[i], 2);
  return {{1}, {sum / static_cast<double>(x.values.size())}};
}

}  // namespace reel::tape::reference
