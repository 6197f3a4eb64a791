// Attention over lists of keys (lists/view.h) or over all keys, forward and backward, f32.
//
//   out = softmax(scale * q k^T) v over the keys of each query's list;  lse = log of the sum of exp(scale * q k^T),
//   natural.
//
// q, k, v, out and their gradients are views with strides (in floats), so that the rows of linear layers are used in
// place: [batch][tokens][heads][head_dim] and [batch][heads][tokens][head_dim] both work. A row of head_dim floats is
// contiguous. lse is [batch][heads][queries], contiguous. head_dim is a multiple of 8 up to 256. Queries and keys may
// differ in number. A query whose list is empty gets out = 0 and lse = -inf, so partial results always merge.
//
// Same input, same bits, whatever the number of threads. Shapes, and whether lists fit them, are checked in release
// builds too (reel::Error). What lists hold is checked when a view of them is made: the caller makes one view and uses
// it for all its calls.
#pragma once

#include <cstdint>

#include "reel/base/threads.h"
#include "reel/lists/view.h"

namespace reel::attention {

struct Shape {
  std::int64_t batch = 1, heads = 1, queries = 0, keys = 0, head_dim = 0;
};

template <class T>
struct View {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;  // strides in floats
  T* at(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data == nullptr ? nullptr : data + b * batch + h * head + i * row;  // nullptr: no tokens at all
  }
  operator View<const T>() const { return {data, batch, head, row}; }
};
using ConstView = View<const float>;
using MutableView = View<float>;

template <class T>  // [batch][tokens][heads][head_dim]: what linear layers produce
View<T> token_major(T* data, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  return {data, tokens * heads * head_dim, head_dim, heads * head_dim};
}
template <class T>  // [batch][heads][tokens][head_dim]
View<T> head_major(T* data, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  return {data, heads * tokens * head_dim, tokens * head_dim, head_dim};
}

struct Input {
  Shape shape;
  ConstView q, k, v;
  float scale = 1;  // usually 1 / sqrt(head_dim)
};

// Attention over some of the keys.
struct Partial {
  MutableView out;
  float* lse = nullptr;
};

// `lists` are of this shape; {}: all keys.
void forward(const Input& in, const lists::ListsView& lists, const Partial& result, Threads& threads);

// into = the attention over the keys of both sides. Exact, and safe when one side (or both) saw no key.
void merge(const Shape& shape, const Partial& into, const Partial& other, Threads& threads);

// Gradients given out and lse of all keys. Where the keys at hand are only some of them (a ring step), out and lse are
// the merged ones, and the result is this part's share of the gradients. With accumulate the gradients are added to
// what is there, otherwise they replace it. dq must not overlap dk or dv.
struct Gradients {
  ConstView dout, out;
  const float* lse = nullptr;
  MutableView dq, dk, dv;
  bool accumulate = false;
};

void backward(const Input& in, const lists::ListsView& lists, const Gradients& gradients, Threads& threads);

}  // namespace reel::attention
