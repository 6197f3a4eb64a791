#include "reel/tape/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/sized.h"

namespace reel::tape {

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t Tensor::rows() const {  // of empty tensors, too
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis + 1 < shape_.size(); ++axis) count *= shape_[axis];
  return count;
}

float Tensor::item() const {
  REEL_CHECK(size() == 1);
  return data() == nullptr ? 0.0f : data()[0];
}

Tensor Tensor::reshaped(Shape shape) const {
  REEL_CHECK(elements(shape) == size());
  return {std::move(shape), value_, node_};
}

Parameter& Parameters::add(std::string name, Shape shape, bool trained) {
  REEL_CHECK(floats_ == 0 && find(name) == nullptr);
  Parameter& p = all_.emplace_back();
  p.name = std::move(name);
  p.shape = std::move(shape);
  p.trained = trained;
  return p;
}

void Parameters::allocate(With with) {
  REEL_CHECK(floats_ == 0);
  offsets_.resize(all_.size());
  for (const bool trained : {true, false}) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].trained != trained) continue;
      offsets_[i] = floats_;
      floats_ += sized(all_[i].size() + 15) / 16 * 16;
    }
    if (trained) trained_floats_ = floats_;
  }
  if (with == With::kGhost || with == With::kGhostGradients) return;
  values_ = Buffer<float>::zeros(floats_);
  if (with == With::kGradients) gradients_ = Buffer<float>::zeros(trained_floats_);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_[i].value = values_.data() + offsets_[i];
    if (with == With::kGradients && all_[i].trained) all_[i].gradient = gradients_.data() + offsets_[i];
  }
}

const Parameter* Parameters::find(const std::string& name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Parameter& p) { return p.name == name; });
  return found == all_.end() ? nullptr : &*found;
}

Parameter* Parameters::find(const std::string& name) {
  return const_cast<Parameter*>(static_cast<const Parameters*>(this)->find(name));
}

std::int64_t Parameters::count() const {
  std::int64_t sum = 0;
  for (const Parameter& p : all_) sum += p.size();
  return sum;
}

std::int64_t Parameters::trained_count() const {
  std::int64_t sum = 0;
  for (const Parameter& p : all_) sum += p.trained ? p.size() : 0;
  return sum;
}

std::size_t Parameters::offset(const Parameter& p) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Parameter& each) { return &each == &p; });
  REEL_CHECK(found != all_.end() && offsets_.size() == all_.size());
  return offsets_[sized(found - all_.begin())];
}

void Parameters::clear_gradients() {
  for (Parameter& p : all_) p.fresh = true;
}

void Parameters::zero_untouched_gradients() {
  for (Parameter& p : all_) {
    if (!p.fresh || p.gradient == nullptr) continue;
    std::fill_n(p.gradient, p.size(), 0.0f);
    p.fresh = false;
  }
}

}  // namespace reel::tape
