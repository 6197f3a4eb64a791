#include "reel/parallel/shard.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::parallel {

namespace {

using tape::Shape;

int counted(const Tensor& x, int axis) {
  const int axes = static_cast<int>(x.shape().size());
  const int found = axis < 0 ? axis + axes : axis;
  REEL_CHECK(found >= 0 && found < axes);
  return found;
}

std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t count = 1;
  for (int axis = first; axis < last; ++axis) count *= shape[sized(axis)];
  return count;
}

Shape with(Shape shape, int axis, std::int64_t extent) {
  shape[sized(axis)] = extent;
  return shape;
}

struct Range {
  std::int64_t first, count;
};
Range range(const layout::Cut& cut, int part) { return {cut.begin(part), cut.size(part)}; }

enum class Way { kPack, kUnpack };

// The box of x where axis `low` is in `a` and axis `high` (above low) in `b`, to or from one contiguous piece.
void copy_box(float* x, const Shape& shape, int low, Range a, int high, Range b, float* packed, Way way,
              Threads& threads) {
  const std::int64_t outer = product(shape, 0, low), middle = product(shape, low + 1, high);
  const std::int64_t inner = product(shape, high + 1, static_cast<int>(shape.size()));
  const std::int64_t low_extent = shape[sized(low)], high_extent = shape[sized(high)];
  const std::int64_t run = b.count * inner, runs = outer * a.count * middle;
  if (run == 0 || runs == 0) return;
  const std::int64_t chunk = std::max<std::int64_t>(1, 16384 / run), chunks = (runs + chunk - 1) / chunk;
  threads.run(chunks, [&](std::int64_t c, int) {
    for (std::int64_t i = c * chunk; i < std::min(runs, (c + 1) * chunk); ++i) {
      const std::int64_t m = i % middle, at = i / middle % a.count, o = i / middle / a.count;
      float* in_x = x + ((o * low_extent + a.first + at) * middle + m) * high_extent * inner + b.first * inner;
      float* in_piece = packed + i * run;
      std::memcpy(way == Way::kPack ? in_piece : in_x, way == Way::kPack ? in_x : in_piece, sized(run) * sizeof(float));
    }
  });
}

Tensor take(Tape& tape, const Tensor& x, int axis, Range part) {
  const Tensor y = tape.make(with(x.shape(), axis, part.count));
  // One axis is enough: the other is one of extent 1 behind the last.
  Shape shape = x.shape();
  shape.push_back(1);
  tape.run(work::Sweep{"split", y.size(), 0, 2}, [&] {
    copy_box(x.data(), shape, axis, part, static_cast<int>(shape.size()) - 1, {0, 1}, y.data(), Way::kPack,
             tape.threads());
  });
  return y;
}

}  // namespace

// Messages of a switch under way: packed and sent by the constructor, awaited and unpacked by finish.
class Switch::Exchange {
 public:
  Exchange(Tape& tape, comm::Comm& group, const Tensor& x, int from, const layout::Cut& from_cut, int to,
           const layout::Cut& to_cut)
      : group_(group), shape_(x.shape()), from_(from), to_(to), from_cut_(from_cut), to_cut_(to_cut) {
    const int rank = group.rank();
    std::vector<std::int64_t> send, receive;
    std::int64_t received = 0;
    for (int r = 0; r < group.size(); ++r) {
      send.push_back(box(x.dim(from), to_cut.size(r)) * std::int64_t{sizeof(float)});
      receive.push_back(box(from_cut.size(r), to_cut.size(rank)) * std::int64_t{sizeof(float)});
      received += box(from_cut.size(r), to_cut.size(rank));
    }
    packed_ = tape.make({x.size()});
    arrived_ = tape.make({received});
    tape.run(work::Sweep{"switch", x.size(), 0, 2}, [&] {
      float* piece = packed_.data();
      for (int r = 0; r < group.size(); ++r) {
        copy(x, {0, x.dim(from)}, range(to_cut, r), piece, Way::kPack, tape.threads());
        piece += box(x.dim(from), to_cut.size(r));
      }
    });
    handle_ = group.start_all_to_all(packed_.data(), send, arrived_.data(), receive, where(tape));
  }

  const Tensor& packed() const { return packed_; }
  const Tensor& arrived() const { return arrived_; }

  Tensor finish(Tape& tape) {
    const int rank = group_.rank();
    handle_.wait();
    const Tensor y = tape.make(with(with(shape_, from_, from_cut_.extent()), to_, to_cut_.size(rank)));
    tape.run(work::Sweep{"switch", y.size(), 0, 2}, [&] {
      float* piece = arrived_.data();
      for (int r = 0; r < group_.size(); ++r) {
        copy(y, range(from_cut_, r), {0, to_cut_.size(rank)}, piece, Way::kUnpack, tape.threads());
        piece += box(from_cut_.size(r), to_cut_.size(rank));
      }
    });
    return y;
  }

 private:
  // Floats of a box with these extents along `from` and `to`.
  std::int64_t box(std::int64_t of_from, std::int64_t of_to) const {
    return tape::elements(with(with(shape_, from_, of_from), to_, of_to));
  }
  void copy(const Tensor& x, Range of_from, Range of_to, float* piece, Way way, Threads& threads) const {
    if (from_ < to_) {
      copy_box(x.data(), x.shape(), from_, of_from, to_, of_to, piece, way, threads);
    } else {
      copy_box(x.data(), x.shape(), to_, of_to, from_, of_from, piece, way, threads);
    }
  }

  comm::Comm& group_;
  Shape shape_;
  int from_, to_;
  layout::Cut from_cut_, to_cut_;
  Tensor packed_, arrived_;  // before the handle: messages under way end first
  comm::Handle handle_;
};

Tensor gather_values(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut) {
  axis = counted(x, axis);
  REEL_CHECK(cut.parts() == group.size() && x.dim(axis) == cut.size(group.rank()));
  if (group.size() == 1) return x;
  const std::int64_t each =
      product(x.shape(), 0, axis) * product(x.shape(), axis + 1, static_cast<int>(x.shape().size()));
  const Tensor y = tape.make(with(x.shape(), axis, cut.extent())), arrived = tape.make({each * cut.extent()});
  std::vector<std::int64_t> bytes(sized(group.size()));
  for (int r = 0; r < group.size(); ++r) {
    bytes[sized(r)] = each * cut.size(r) * std::int64_t{sizeof(float)};
  }
  group.all_gather_v(x.data(), arrived.data(), bytes, where(tape));
  Shape shape = y.shape();
  shape.push_back(1);
  tape.run(work::Sweep{"gather", y.size(), 0, 2}, [&] {
    float* piece = arrived.data();
    for (int r = 0; r < group.size(); ++r) {
      copy_box(y.data(), shape, axis, range(cut, r), static_cast<int>(shape.size()) - 1, {0, 1}, piece, Way::kUnpack,
               tape.threads());
      piece += each * cut.size(r);
    }
  });
  return y;
}

Tensor split(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut) {
  axis = counted(x, axis);
  REEL_CHECK(cut.parts() == group.size() && x.dim(axis) == cut.extent());
  if (group.size() == 1) return x;
  const Tensor y = take(tape, x, axis, range(cut, group.rank()));
  tape.record(y, tape.wants({x}), [=, &group, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    back.give(x, gather_values(back, group, dy, axis, cut));
  });
  return y;
}

Tensor gather(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut) {
  axis = counted(x, axis);
  if (group.size() == 1) return x;
  const Tensor y = gather_values(tape, group, x, axis, cut);
  tape.record(y, tape.wants({x}), [=, &group, x = x.gradient_only()](Tape& back, const Tensor& dy) {
    back.give(x, take(back, dy, axis, range(cut, group.rank())));
  });
  return y;
}

// What backward needs, and where its messages are while they are under way.
struct Switch::Walk {
  comm::Comm& group;
  int from, to;
  layout::Cut from_cut, to_cut;
  std::unique_ptr<Exchange> back;
};

Switch::Switch(Tape& tape, comm::Comm& group, const Tensor& x, int from, const layout::Cut& from_cut, int to,
               const layout::Cut& to_cut) {
  from = counted(x, from);
  to = counted(x, to);
  REEL_CHECK(from != to && from_cut.parts() == group.size() && to_cut.parts() == group.size());
  REEL_CHECK(x.dim(from) == from_cut.size(group.rank()) && x.dim(to) == to_cut.extent());
  if (group.size() == 1) {
    arrived_ = x;
    return;
  }
  walk_ = std::make_shared<Walk>(Walk{group, from, to, from_cut, to_cut, nullptr});
  there_ = std::make_unique<Exchange>(tape, group, x, from, from_cut, to, to_cut);
  arrived_ = there_->arrived();
  tape.record(arrived_, tape.wants({x}), [walk = walk_, x = x.gradient_only()](Tape& back, const Tensor&) {
    back.give(x, walk->back->finish(back));
    walk->back = nullptr;
  });
}

Switch::~Switch() = default;
Switch::Switch(Switch&&) noexcept = default;

Tensor Switch::finish(Tape& tape) {
  if (walk_ == nullptr) return arrived_;
  const Tensor y = there_->finish(tape);
  there_ = nullptr;
  tape.record(
      y, tape.wants({arrived_}), [walk = walk_, arrived = arrived_.gradient_only()](Tape& back, const Tensor& dy) {
        walk->back =
            std::make_unique<Exchange>(back, walk->group, dy, walk->to, walk->to_cut, walk->from, walk->from_cut);
        back.give(arrived, walk->back->packed());  // what was packed is the gradient of what arrived
      });
  arrived_ = {};
  return y;
}

Tensor switch_shard(Tape& tape, comm::Comm& group, const Tensor& x, int from, const layout::Cut& from_cut, int to,
                    const layout::Cut& to_cut) {
  return Switch(tape, group, x, from, from_cut, to, to_cut).finish(tape);
}

}  // namespace reel::parallel
