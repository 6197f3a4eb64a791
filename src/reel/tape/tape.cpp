#include "reel/tape/tape.h"

#include <algorithm>
#include <utility>

#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"

namespace reel::tape {

namespace {

// Holds a flag up for as long as it lives, through exceptions too.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~Raised() { flag_ = before_; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
  const bool before_;
};

}  // namespace

Tape::Tape(Threads& threads, Pool& pool, Options options)
    : threads_(threads), pool_(pool), options_(std::move(options)) {}

Tensor Tape::make(Shape shape) {
  auto value = pool_.take(sized(elements(shape)));
  return {std::move(shape), std::move(value)};
}

Tensor Tape::zeros(Shape shape) {
  Tensor tensor = make(std::move(shape));
  if (!ghost()) std::fill_n(tensor.data(), tensor.size(), 0.0f);
  return tensor;
}

Tensor Tape::copy_in(Shape shape, std::span<const float> values) {
  Tensor tensor = make(std::move(shape));
  if (ghost()) return tensor;
  REEL_CHECK(values.size() == sized(tensor.size()));
  std::copy(values.begin(), values.end(), tensor.data());
  return tensor;
}

Tensor Tape::differentiable(Shape shape, std::span<const float> values) {
  Tensor tensor = copy_in(std::move(shape), values);
  tensor.node()->needs_gradient = options_.gradients;
  return tensor;
}

void Tape::write_down(const work::What& what, double start) {
  options_.recorder->record({what, layer_, phase()}, start, ghost() ? 0.0 : options_.recorder->now() - start);
}

bool Tape::wants(std::initializer_list<Tensor> tensors) const {
  return options_.gradients &&
         std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t && t.needs_gradient(); });
}

void Tape::record(const Tensor& y, bool wanted, Backward backward, std::initializer_list<Parameter*> used) {
  if (!wanted) return;
  y.node()->needs_gradient = true;
  std::vector<Parameter*> trained;
  for (Parameter* p : used) {
    if (p == nullptr || !wants(*p)) continue;
    trained.push_back(p);
    if (!rerunning_) ++pending_[p];  // a re-run is the same use once more
  }
  if (suspended_) {
    suspended_wanted_ = true;
  } else {
    steps_.push_back({y.gradient_only(), std::move(backward), std::move(trained), layer_});
  }
}

void Tape::give(const Tensor& x, const Tensor& dx) {
  if (!x.needs_gradient()) return;
  REEL_CHECK(x.size() == dx.size());
  auto& gradient = x.node()->gradient;
  if (gradient == nullptr) {
    gradient = dx.value();
    return;
  }
  // Two tensors may share one gradient (both sides of a sum), and then neither may be added to in place.
  const Tensor old({x.size()}, gradient);
  const bool alone = gradient.use_count() == 2;  // the node's and `old`
  const Tensor sum = alone ? old : make({x.size()});
  run(work::Sweep{"add", x.size(), 1, 3}, [&] {
    if (alone) {
      kernels::axpy(1.0f, dx.span(), sum.span(), threads_);
    } else {
      kernels::add(old.span(), dx.span(), sum.span(), threads_);
    }
  });
  gradient = sum.value();
}

Tape::Slot Tape::slot(const Tensor& x) {
  const auto& gradient = x.node()->gradient;
  if (gradient != nullptr && gradient.use_count() == 1) {
    return {Tensor(x.shape(), gradient), true};
  }
  return {make(x.shape()), false};
}

void Tape::settle(const Tensor& x, const Slot& slot) {
  if (!slot.accumulate) give(x, slot.into);
}

Tensor Tape::gradient_to_add(const Tensor& x) {
  auto& gradient = x.node()->gradient;
  if (gradient == nullptr) gradient = zeros(x.shape()).value();
  if (gradient.use_count() > 1) {  // shared with another tensor: take a copy of our own
    const Tensor own = make(x.shape());
    if (!ghost()) std::copy_n(gradient->data(), x.size(), own.data());
    gradient = own.value();
  }
  return {x.shape(), gradient};
}

Tape::ParameterSlot Tape::slot(Parameter& p) {
  REEL_CHECK(ghost() || p.gradient != nullptr);
  const bool accumulate = !p.fresh;
  p.fresh = false;
  return {p.gradient, accumulate};
}

float* Tape::gradient_to_add(Parameter& p) {
  REEL_CHECK(ghost() || p.gradient != nullptr);
  if (p.fresh && !ghost()) std::fill_n(p.gradient, p.size(), 0.0f);
  p.fresh = false;
  return p.gradient;
}

void Tape::backward(const Tensor& loss, float dloss) {
  REEL_CHECK(loss.size() == 1 && !walking_);
  const Tensor seed = make({1});
  if (!ghost()) seed.data()[0] = dloss;
  if (loss.needs_gradient()) loss.node()->gradient = seed.value();
  const int layer = layer_;
  try {
    const Raised walking(walking_);
    walk_back(0);
    // What is left was used inside recomputed parts that the loss does not depend on. By name: ranks send gradients in
    // this order, and addresses differ between them.
    std::vector<Parameter*> left;
    for (auto& [p, uses] : pending_) {
      left.push_back(p);
      uses = 1;
    }
    std::sort(left.begin(), left.end(), [](const Parameter* x, const Parameter* y) { return x->name < y->name; });
    for (Parameter* p : left) finished_with(*p);
  } catch (...) {  // what is left would walk back into half of the gradients
    steps_.clear();
    pending_.clear();
    layer_ = layer;
    throw;
  }
  layer_ = layer;
}

void Tape::walk_back(std::size_t down_to) {
  while (steps_.size() > down_to) {
    Step step = std::move(steps_.back());
    steps_.pop_back();
    layer_ = step.layer;
    Tensor dy(step.y.shape(), std::exchange(step.y.node()->gradient, nullptr));
    if (dy.value() != nullptr) step.backward(*this, std::move(dy));
    for (Parameter* p : step.used) finished_with(*p);
  }
}

void Tape::finished_with(Parameter& p) {
  const auto found = pending_.find(&p);
  REEL_CHECK(found != pending_.end());
  if (--found->second > 0) return;
  pending_.erase(found);
  if (!options_.on_final) return;
  gradient_to_add(p);  // zeros where the loss does not depend on it, not what the last step left there
  options_.on_final(p);
}

Tensor Tape::gradient(const Tensor& x) {
  if (x.node()->gradient == nullptr) return zeros(x.shape());
  return {x.shape(), x.node()->gradient};
}

Tensor Tape::recompute(const std::function<Tensor()>& f) {
  if (!options_.gradients || suspended_) return f();
  suspended_wanted_ = false;
  Tensor y = [&] {
    const Raised suspended(suspended_);
    return f();
  }();
  if (!suspended_wanted_) return y;
  steps_.push_back({y.gradient_only(),
                    [f](Tape& back, Tensor&& dy) {
                      const std::size_t mark = back.steps_.size();
                      {
                        const Raised rerunning(back.rerunning_);
                        back.give(f(), dy);
                      }
                      // The walk owns dy alone, as it would without recompute: whether a gradient is added to in place
                      // decides its last bits, and memory.
                      dy = Tensor();
                      back.walk_back(mark);
                    },
                    {},
                    layer_});
  return y;
}

}  // namespace reel::tape
