#include "reel/parallel/ring.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "reel/attention/attention.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/tape/attention_work.h"

namespace reel::parallel {

namespace {

using lists::ListsView;
using tape::Shape;

enum Tag { kKeys = 1, kGradients, kHome };

// Keys [begin, end) of one rank's tokens, and what this rank's queries want of them.
struct Part {
  int block = 0;
  std::int64_t begin = 0, end = 0;  // of all keys of the ring
  ListsView lists;                  // none: all its keys
  work::Attention work;             // of forward
  bool needed = false;              // by this rank
};

// Who needs which block, and what this rank does with it.
struct Route {
  int rank = 0, ranks = 1;
  layout::Cut tokens;
  Shape own;  // [batch, own tokens, heads, head_dim]
  std::vector<Part> blocks;
  Part halves[2];  // of this rank's own block
  // Steps after which block b is with the first and with the last of the other ranks that need it; 0: nobody does.
  std::vector<int> first, reach;

  int block_at(int step) const { return (rank - step + ranks) % ranks; }
  bool arrives(int step) const { return step > 0 && step < ranks && reach[at(block_at(step))] >= step; }
  bool goes_on(int step) const { return (step == 0 || arrives(step)) && reach[at(block_at(step))] > step; }
  // The gradients of a block begin at the first of the others that needs it.
  bool has_gradients(int step) const { return arrives(step) && first[at(block_at(step))] <= step; }
  bool gradients_arrive(int step) const { return arrives(step) && first[at(block_at(step))] < step; }
  int next() const { return (rank + 1) % ranks; }
  int previous() const { return (rank + ranks - 1) % ranks; }
  std::int64_t floats(int block) const { return own[0] * tokens.size(block) * own[2] * own[3]; }
  std::int64_t largest() const {
    std::int64_t most = 0;
    for (int b = 0; b < ranks; ++b) most = std::max(most, floats(b));
    return most;
  }
  static std::size_t at(int i) { return sized(i); }
};

attention::Shape shape_of(const Route& r, const Part& part) {
  return {r.own[0], r.own[2], r.own[1], part.end - part.begin, r.own[3]};
}

// Which rank needs which block: needs[rank * ranks + block].
std::vector<std::uint8_t> all_needs(const Tape& tape, comm::Comm& ring, const Route& r, const ListsView& lists) {
  const std::vector<std::int64_t> each(Route::at(r.ranks), r.ranks);
  std::vector<std::uint8_t> own, all(each.size() * each.size());
  if (lists && !tape.ghost()) {
    for (const Part& part : r.blocks) own.push_back(part.needed ? 1 : 0);
    ring.all_gather_v(own.data(), all.data(), each, where(tape));
    return all;
  }
  for (int i = 0; i < r.ranks * r.ranks; ++i) {
    all[Route::at(i)] = r.floats(i / r.ranks) > 0 && r.floats(i % r.ranks) > 0 ? 1 : 0;
  }
  return all;
}

Route make_route(const Tape& tape, comm::Comm& ring, const Tensor& q, const layout::Cut& tokens,
                 const ListsView& lists) {
  Route r;
  r.rank = ring.rank();
  r.ranks = ring.size();
  r.tokens = tokens;
  r.own = q.shape();
  const auto part = [&](int block, std::int64_t begin, std::int64_t end) {
    Part p{block, begin, end, lists.some_keys(begin, end), {}, false};
    p.work = tape::attention_work(shape_of(r, p), p.lists);
    p.needed = p.work.pairs > 0;
    return p;
  };
  for (int b = 0; b < r.ranks; ++b) r.blocks.push_back(part(b, tokens.begin(b), tokens.end(b)));
  const std::int64_t begin = tokens.begin(r.rank), end = tokens.end(r.rank), middle = begin + (end - begin) / 2;
  r.halves[0] = part(r.rank, begin, middle);
  r.halves[1] = part(r.rank, middle, end);
  const std::vector<std::uint8_t> needs = all_needs(tape, ring, r, lists);
  for (int b = 0; b < r.ranks; ++b) {
    int first = 0, reach = 0;
    for (int step = 1; step < r.ranks; ++step) {
      if (needs[Route::at((b + step) % r.ranks * r.ranks + b)] == 0) continue;
      if (first == 0) first = step;
      reach = step;
    }
    r.first.push_back(first);
    r.reach.push_back(reach);
  }
  return r;
}

// Views of tensors that hold the queries of this rank, or the keys of a whole block.
template <class T>
attention::View<T> queries(T* data, const Route& r) {
  return attention::token_major(data, r.own[1], r.own[2], r.own[3]);
}
template <class T>
attention::View<T> keys_of(T* block, const Route& r, const Part& part) {
  const attention::View<T> all = attention::token_major(block, r.tokens.size(part.block), r.own[2], r.own[3]);
  return {all.at(0, 0, part.begin - r.tokens.begin(part.block)), all.batch, all.head, all.row};
}

attention::Input input(const Route& r, const Part& part, const float* q, const float* k, const float* v) {
  return {shape_of(r, part), queries(q, r), keys_of(k, r, part), keys_of(v, r, part),
          1.0f / std::sqrt(static_cast<float>(r.own[3]))};
}

// A buffer holds the keys of a block and behind them its values.
float* second(const Tensor& buffer, std::int64_t floats) {
  return buffer.data() == nullptr ? nullptr : buffer.data() + floats;  // null: a ghost's
}

// The stream of keys and values: at step s the block is in keys() and values().
class Keys {
 public:
  Keys(Tape& tape, comm::Comm& ring, const Route& route, const Tensor& k, const Tensor& v)
      : tape_(tape), ring_(ring), route_(route), own_k_(k), own_v_(v) {
    bool any = false;
    for (int step = 1; step < route.ranks; ++step) any = any || route.arrives(step);
    for (Tensor& buffer : buffers_) buffer = tape.make({any ? 2 * route.largest() : 0});
  }

  const float* keys(int step) const { return step == 0 ? own_k_.data() : buffers_[step % 2].data(); }
  const float* values(int step) const {
    return step == 0 ? own_v_.data() : second(buffers_[step % 2], route_.floats(route_.block_at(step)));
  }

  // The block of this step is passed on, the next one comes in.
  void start(int step) {
    const auto bytes = [&](int s) { return route_.floats(route_.block_at(s)) * std::int64_t{sizeof(float)}; };
    const comm::Where here = where(tape_);
    if (route_.arrives(step + 1)) {
      const Tensor& into = buffers_[(step + 1) % 2];
      float* values = second(into, route_.floats(route_.block_at(step + 1)));
      handles_.push_back(ring_.start_receive(into.data(), bytes(step + 1), route_.previous(), kKeys, here));
      handles_.push_back(ring_.start_receive(values, bytes(step + 1), route_.previous(), kKeys, here));
    }
    if (route_.goes_on(step)) {
      handles_.push_back(ring_.start_send(keys(step), bytes(step), route_.next(), kKeys, here));
      handles_.push_back(ring_.start_send(values(step), bytes(step), route_.next(), kKeys, here));
    }
  }
  void wait() {
    for (comm::Handle& handle : handles_) handle.wait();
    handles_.clear();
  }

 private:
  Tape& tape_;
  comm::Comm& ring_;
  const Route& route_;
  Tensor own_k_, own_v_, buffers_[2];  // before the handles: messages under way end first
  std::vector<comm::Handle> handles_;
};

void forward(Tape& tape, comm::Comm& ring, const Route& r, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& out, const Tensor& lse) {
  Keys keys(tape, ring, r, k, v);
  const Tensor part = tape.make(out.shape()), part_lse = tape.make(lse.shape());
  bool first = true;
  for (int step = 0; step < r.ranks; ++step) {
    keys.start(step);
    const Part& block = r.blocks[Route::at(r.block_at(step))];
    if (block.needed) {
      tape.run(block.work, [&] {
        const attention::Partial whole{queries(out.data(), r), lse.data()};
        const attention::Partial some = first ? whole : attention::Partial{queries(part.data(), r), part_lse.data()};
        const attention::Input in = input(r, block, q.data(), keys.keys(step), keys.values(step));
        attention::forward(in, block.lists, some, tape.threads());
        if (!first) attention::merge(in.shape, whole, some, tape.threads());
      });
      first = false;
    }
    keys.wait();
  }
  if (first && !tape.ghost()) {  // nobody to attend to
    std::fill_n(out.data(), out.size(), 0.0f);
    std::fill_n(lse.data(), lse.size(), -std::numeric_limits<float>::infinity());
  }
}

// What a step of backward reads, beside the block at hand.
struct Known {
  Tensor q, out, lse, dout;
};

// Adds to dq, and to dk and dv of the block.
void one_part(Tape& tape, const Route& r, const Part& part, const Known& known, const float* k, const float* v,
              const Tensor& dq, float* dk, float* dv) {
  if (!part.needed) return;
  tape.run(tape::backward_of(part.work), [&] {
    const attention::Gradients gradients{queries(known.dout.data(), r),
                                         queries(known.out.data(), r),
                                         known.lse.data(),
                                         queries(dq.data(), r),
                                         keys_of(dk, r, part),
                                         keys_of(dv, r, part),
                                         true};
    attention::backward(input(r, part, known.q.data(), k, v), part.lists, gradients, tape.threads());
  });
}

// Own keys come first and last, one half each: behind the first half the first block arrives, behind the second the
// gradients come home.
void backward(Tape& tape, comm::Comm& ring, const Route& r, const Known& known, const Tensor& k, const Tensor& v,
              const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  const comm::Where here = where(tape);
  bool any = false, shared = false;
  for (int step = 1; step < r.ranks; ++step) {
    any = any || r.has_gradients(step);
    shared = shared || r.gradients_arrive(step);
  }
  const std::int64_t width = 2 * r.largest(), own = r.floats(r.rank);
  const int reach = r.reach[Route::at(r.rank)];
  // Gradients of the block at hand, keys then values: this rank's share, and the sum so far, which is passed on.
  const Tensor share = tape.make({shared ? width : 0});
  const Tensor sums[2] = {tape.make({any ? width : 0}), tape.make({any ? width : 0})};
  const Tensor returned = tape.make({reach > 0 ? 2 * own : 0});
  comm::Handle incoming, outgoing[2], home;
  if (reach > 0) {
    home = ring.start_receive(returned.data(), returned.size() * std::int64_t{sizeof(float)},
                              (r.rank + reach) % r.ranks, kHome, here);
  }
  Keys keys(tape, ring, r, k, v);
  keys.start(0);
  one_part(tape, r, r.halves[0], known, k.data(), v.data(), dq, dk.data(), dv.data());
  keys.wait();
  for (int step = 1; step < r.ranks; ++step) {
    const Part& block = r.blocks[Route::at(r.block_at(step))];
    const std::int64_t floats = r.floats(block.block), bytes = 2 * floats * std::int64_t{sizeof(float)};
    const Tensor& sum = sums[step % 2];
    outgoing[step % 2].wait();
    keys.start(step);
    const bool joins = r.gradients_arrive(step);
    if (joins) incoming = ring.start_receive(sum.data(), bytes, r.previous(), kGradients, here);
    const Tensor& into = joins ? share : sum;
    if (block.needed && !tape.ghost()) std::fill_n(into.data(), 2 * floats, 0.0f);
    one_part(tape, r, block, known, keys.keys(step), keys.values(step), dq, into.data(), second(into, floats));
    if (joins) incoming.wait();
    if (joins && block.needed) {
      const std::size_t count = sized(2 * floats);
      tape.run(work::Sweep{"add", 2 * floats, 1, 3},
               [&] { kernels::axpy(1.0f, share.span().first(count), sum.span().first(count), tape.threads()); });
    }
    if (r.has_gradients(step)) {
      outgoing[step % 2] = r.goes_on(step) ? ring.start_send(sum.data(), bytes, r.next(), kGradients, here)
                                           : ring.start_send(sum.data(), bytes, block.block, kHome, here);
    }
    keys.wait();
  }
  one_part(tape, r, r.halves[1], known, k.data(), v.data(), dq, dk.data(), dv.data());
  for (comm::Handle& handle : outgoing) handle.wait();
  home.wait();
  if (reach == 0) return;
  tape.run(work::Sweep{"add", 2 * own, 1, 3}, [&] {
    const std::size_t count = sized(own);
    kernels::axpy(1.0f, returned.span().first(count), dk.span(), tape.threads());
    kernels::axpy(1.0f, returned.span().subspan(count), dv.span(), tape.threads());
  });
}

}  // namespace

Tensor ring_attention(Tape& tape, comm::Comm& ring, const Tensor& q, const Tensor& k, const Tensor& v,
                      const layout::Cut& tokens, const ListsView& lists) {
  REEL_CHECK(q.shape().size() == 4 && k.shape() == q.shape() && v.shape() == q.shape());
  REEL_CHECK(tokens.parts() == ring.size() && tokens.size(ring.rank()) == q.dim(1));
  REEL_CHECK(!lists || (lists.batch() == q.dim(0) && lists.heads() == q.dim(2) && lists.queries() == q.dim(1) &&
                        lists.keys() == tokens.extent()));
  const auto route = std::make_shared<Route>(make_route(tape, ring, q, tokens, lists));
  const Tensor out = tape.make(q.shape()), lse = tape.make({q.dim(0), q.dim(2), q.dim(1)});
  forward(tape, ring, *route, q, k, v, out, lse);
  tape.record(out, tape.wants({q, k, v}), [=, &ring](Tape& back, const Tensor& dout) {
    const Tensor dq = back.zeros(q.shape()), dk = back.zeros(k.shape()), dv = back.zeros(v.shape());
    backward(back, ring, *route, {q, out, lse, dout}, k, v, dq, dk, dv);
    back.give(q, dq);
    back.give(k, dk);
    back.give(v, dv);
  });
  return out;
}

}  // namespace reel::parallel
