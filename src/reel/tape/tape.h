// The tape: runs operations, remembers how to walk them back.
//
// An operation makes its result with make(), computes it inside run() and says with record() how gradients flow back:
//
//   Tensor silu(Tape& tape, const Tensor& x) {
//     const Tensor y = tape.make(x.shape());
//     tape.run(work::Sweep{"silu", x.size(), 10, 2}, [&] { kernels::activation(..., x.span(), y.span(),
//     tape.threads()); }); tape.record(y, tape.wants({x}), [=](Tape& back, const Tensor& dy) {
//       const Tensor dx = back.make(x.shape());
//       back.run(work::Sweep{"silu", ...}, [&] { kernels::activation_backward(..., dx.span(), ...); });
//       back.give(x, dx);  // x is captured with its values, which the derivative needs; else x.gradient_only()
//     });
//     return y;
//   }
//
// backward(loss) walks in reverse, drops what each operation kept as soon as it is done, adds to the gradients of the
// parameters, and calls on_final(p) when the gradient of p will not change any more. run() is the one door through
// which all work goes: timing, ghosts and accounting are there and nowhere else. A ghost tape runs nothing: every
// tensor has a shape and no data, every operation is recorded as Work (reel/base/work.h), memory is counted as in a
// real run.
//
// Used by one thread; operations use the team's threads inside.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "reel/base/record.h"
#include "reel/base/threads.h"
#include "reel/tape/pool.h"
#include "reel/tape/tensor.h"

namespace reel::tape {

class Tape {
 public:
  struct Options {
    bool gradients = true;         // false: sampling; nothing is recorded
    Recorder* recorder = nullptr;  // gets every operation
    // Called during backward when the gradient of a parameter is complete for this pass.
    std::function<void(Parameter&)> on_final = nullptr;
  };
  // A tape is a ghost when its pool is.
  Tape(Threads& threads, Pool& pool, Options options);
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Threads& threads() { return threads_; }
  Pool& pool() { return pool_; }
  bool ghost() const { return pool_.ghost(); }

  // Tensors.
  Tensor make(Shape shape);   // uninitialised
  Tensor zeros(Shape shape);  // cleared
  Tensor copy_in(Shape shape, std::span<const float> values);
  Tensor differentiable(Shape shape, std::span<const float> values);  // an input whose gradient is wanted

  // Runs f, which does `what`, unless this is a ghost. The record gets phase and layer, too.
  template <class F>
  void run(const work::What& what, F&& f) {
    const double start = options_.recorder != nullptr ? options_.recorder->now() : 0;
    if (!ghost()) f();
    if (options_.recorder != nullptr) write_down(what, start);
  }

  // Which layer the following operations belong to (-1: none); backward remembers it.
  void set_layer(int layer) { layer_ = layer; }
  int layer() const { return layer_; }
  Phase phase() const { return walking_ ? Phase::kBackward : Phase::kForward; }

  // --- for operations -------------------------------------------------------------------------------------------
  // Whether a gradient flows to any of these.
  bool wants(std::initializer_list<Tensor> tensors) const;
  bool wants(const Parameter& p) const { return options_.gradients && p.trained; }
  bool wants(const Parameter* p) const { return p != nullptr && wants(*p); }

  using Backward = std::function<void(Tape&, Tensor&& dy)>;
  // Without `wanted`, nothing is kept. What `backward` captures is kept: x.gradient_only() where the values of x do not
  // matter. `used`: the parameters whose gradient `backward` adds to (null ones are
  // ignored).
  void record(const Tensor& y, bool wanted, Backward backward, std::initializer_list<Parameter*> used = {});

  // During backward. give() adds dx to the gradient of x, taking over its memory where it can.
  void give(const Tensor& x, const Tensor& dx);
  // Where a kernel can add by itself: into {tensor, accumulate}, then settle().
  struct Slot {
    Tensor into;
    bool accumulate = false;
  };
  Slot slot(const Tensor& x);
  void settle(const Tensor& x, const Slot& slot);
  // The gradient of x as a tensor to add to, cleared at first.
  Tensor gradient_to_add(const Tensor& x);
  // The same for parameters: overwrite when not accumulate; or, for kernels that only add, cleared at first.
  struct ParameterSlot {
    float* into;
    bool accumulate;
  };
  ParameterSlot slot(Parameter& p);
  float* gradient_to_add(Parameter& p);

  // --- for models and loops -------------------------------------------------------------------------------------
  // loss has one element. Afterwards the tape is empty.
  void backward(const Tensor& loss, float dloss = 1.0f);
  // The gradient of a differentiable() input after backward; zeros where nothing reached it.
  Tensor gradient(const Tensor& x);

  // Runs f without keeping what it computes; backward runs it again, with the gradients then walking straight through.
  // f must do the same both times (tensors made before, parameters, the same random numbers) and may ask rerunning().
  Tensor recompute(const std::function<Tensor()>& f);
  bool rerunning() const { return rerunning_; }

 private:
  struct Step {
    Tensor y;
    Backward backward;
    std::vector<Parameter*> used;
    int layer;
  };
  void write_down(const work::What& what, double start);
  void walk_back(std::size_t down_to);
  void finished_with(Parameter& p);

  Threads& threads_;
  Pool& pool_;
  Options options_;
  std::vector<Step> steps_;
  std::map<Parameter*, int> pending_;  // uses whose gradient is still to come
  int layer_ = -1;
  bool suspended_ = false;  // the first run of a recomputed part
  bool suspended_wanted_ = false;
  bool rerunning_ = false;
  bool walking_ = false;
};

}  // namespace reel::tape
