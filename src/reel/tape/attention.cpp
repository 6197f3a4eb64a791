#include "reel/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "reel/tape/attention_work.h"
#include "reel/tape/operations.h"

namespace reel::tape {

namespace {

using lists::ListsView;

struct Task {
  attention::Shape shape;
  float scale;
  ListsView lists;
  work::Attention work;  // of forward
};

Task make_task(const attention::Shape& shape, ListsView lists, work::Attention::Kind kind) {
  const work::Attention work = attention_work(shape, lists, kind);
  return {shape, 1.0f / std::sqrt(static_cast<float>(shape.head_dim)), std::move(lists), work};
}

template <class T>
attention::View<T> view(T* data, std::int64_t tokens, const attention::Shape& shape) {
  return attention::token_major(data, tokens, shape.heads, shape.head_dim);
}

attention::Input input(const Task& task, const float* q, const float* k, const float* v) {
  return {task.shape, view(q, task.shape.queries, task.shape), view(k, task.shape.keys, task.shape),
          view(v, task.shape.keys, task.shape), task.scale};
}

void forward(const Task& task, const float* q, const float* k, const float* v, float* out, float* lse,
             Threads& threads) {
  const attention::Partial result{view(out, task.shape.queries, task.shape), lse};
  attention::forward(input(task, q, k, v), task.lists, result, threads);
}

struct Derivatives {
  const float *dout, *out, *lse;
  float *dq, *dk, *dv;
};

void backward(const Task& task, const float* q, const float* k, const float* v, const Derivatives& d,
              Threads& threads) {
  const std::int64_t queries = task.shape.queries, keys = task.shape.keys;
  const attention::Gradients gradients{
      view(d.dout, queries, task.shape), view(d.out, queries, task.shape), d.lse,
      view(d.dq, queries, task.shape),   view(d.dk, keys, task.shape),     view(d.dv, keys, task.shape)};
  attention::backward(input(task, q, k, v), task.lists, gradients, threads);
}

Tensor attend(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, ListsView lists,
              work::Attention::Kind kind) {
  REEL_CHECK(q.shape().size() == 4 && k.shape() == Shape({q.dim(0), k.dim(1), q.dim(2), q.dim(3)}) &&
             v.shape() == k.shape());
  const Task task = make_task({q.dim(0), q.dim(2), q.dim(1), k.dim(1), q.dim(3)}, std::move(lists), kind);
  const Tensor out = tape.make(q.shape()), lse = tape.make({q.dim(0), q.dim(2), q.dim(1)});
  tape.run(task.work, [&] { forward(task, q.data(), k.data(), v.data(), out.data(), lse.data(), tape.threads()); });
  tape.record(out, tape.wants({q, k, v}), [=](Tape& back, const Tensor& dout) {
    const Tensor dq = back.make(q.shape()), dk = back.make(k.shape()), dv = back.make(v.shape());
    back.run(backward_of(task.work), [&] {
      backward(task, q.data(), k.data(), v.data(),
               {dout.data(), out.data(), lse.data(), dq.data(), dk.data(), dv.data()}, back.threads());
    });
    back.give(q, dq);
    back.give(k, dk);
    back.give(v, dv);
  });
  return out;
}

}  // namespace

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, ListsView lists) {
  return attend(tape, q, k, v, std::move(lists), work::Attention::Kind::kSelf);
}

Tensor cross_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v) {
  return attend(tape, q, k, v, {}, work::Attention::Kind::kCross);
}

Tensor cross_attention_packed(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                              std::vector<std::int64_t> starts) {
  REEL_CHECK(q.shape().size() == 4 && k.shape() == Shape({k.dim(0), q.dim(2), q.dim(3)}) && v.shape() == k.shape());
  const std::int64_t batch = q.dim(0), heads = q.dim(2), width = heads * q.dim(3);
  REEL_CHECK(static_cast<std::int64_t>(starts.size()) == batch + 1 && starts.front() == 0 &&
             starts.back() == k.dim(0) && std::is_sorted(starts.begin(), starts.end()));
  // One task for each batch entry: they differ in the number of keys.
  struct Entry {
    Task task;
    std::int64_t q, k, lse;  // where it begins, in floats
  };
  std::vector<Entry> entries;
  for (std::int64_t b = 0; b < batch; ++b) {
    const attention::Shape shape{1, heads, q.dim(1), starts[b + 1] - starts[b], q.dim(3)};
    entries.push_back({make_task(shape, {}, work::Attention::Kind::kCross), b * q.dim(1) * width, starts[b] * width,
                       b * heads * q.dim(1)});
  }
  const Tensor out = tape.make(q.shape()), lse = tape.make({batch, heads, q.dim(1)});
  for (const Entry& e : entries) {
    tape.run(e.task.work, [&] {
      forward(e.task, q.data() + e.q, k.data() + e.k, v.data() + e.k, out.data() + e.q, lse.data() + e.lse,
              tape.threads());
    });
  }
  tape.record(out, tape.wants({q, k, v}), [=](Tape& back, const Tensor& dout) {
    const Tensor dq = back.make(q.shape()), dk = back.make(k.shape()), dv = back.make(v.shape());
    for (const Entry& e : entries) {
      back.run(backward_of(e.task.work), [&] {
        backward(e.task, q.data() + e.q, k.data() + e.k, v.data() + e.k,
                 {dout.data() + e.q, out.data() + e.q, lse.data() + e.lse, dq.data() + e.q, dk.data() + e.k,
                  dv.data() + e.k},
                 back.threads());
      });
    }
    back.give(q, dq);
    back.give(k, dk);
    back.give(v, dv);
  });
  return out;
}

}  // namespace reel::tape
