// How a tensor with several sequence axes lies over the ranks of a group, and how that changes: the primitives of
// dynamic sequence parallelism (DSP, arXiv 2403.10266).
//
//   whole on every rank ──split──► cut along axis i ──switch_shard──► cut along axis j ──gather──► whole on every rank
//
//   split          takes the own part; nothing is sent           backward: all-gather
//   switch_shard   all-to-all: whole parts of axis i come in, parts of axis j go out; each rank sends
//                  (n - 1) / n of its part                        backward: the opposite switch
//   gather         all-gather                                     backward: takes the own part
//
// Cut the axis along which nothing is computed together: what a stage computes along every other axis needs no
// message. Axes are cut as a layout::Cut says (cut.h), evenly or not; a rank may hold nothing.
//
// Gradients: what is whole is the same on every rank, and so is its gradient. What is computed from parts is partial:
// the gradient of a weight that was used on parts is the sum over the ranks of what each of them has.
//
// All ranks of the group call the same operations in the same order. In a group of one rank they return x.
#pragma once

#include "reel/comm/comm.h"
#include "reel/layout/cut.h"
#include "reel/tape/tape.h"

namespace reel::parallel {

using tape::Tape;
using tape::Tensor;

// Axes count from the end where negative.
Tensor split(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut);
Tensor gather(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut);
// x is cut along `from`; the result is whole along `from` and cut along `to`.
Tensor switch_shard(Tape& tape, comm::Comm& group, const Tensor& x, int from, const layout::Cut& from_cut, int to,
                    const layout::Cut& to_cut);

// switch_shard in two parts with work between them: messages are under way from the constructor to finish and, in
// backward, from where finish is walked back to where the constructor is; compute loops move them (comm.h). Every
// switch is finished once.
class Switch {
 public:
  Switch(Tape& tape, comm::Comm& group, const Tensor& x, int from, const layout::Cut& from_cut, int to,
         const layout::Cut& to_cut);
  ~Switch();
  Switch(Switch&&) noexcept;
  Tensor finish(Tape& tape);

 private:
  class Exchange;
  struct Walk;
  Tensor arrived_;
  std::unique_ptr<Exchange> there_;
  std::shared_ptr<Walk> walk_;
};

// gather without a gradient: for what is no part of the model's graph.
Tensor gather_values(Tape& tape, comm::Comm& group, const Tensor& x, int axis, const layout::Cut& cut);

// What the operation that runs now belongs to.
inline comm::Where where(const Tape& tape) { return {tape.layer(), tape.phase()}; }

}  // namespace reel::parallel
