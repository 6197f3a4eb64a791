// Tensors and parameters.
//
// A Tensor is a shape and shared, contiguous f32 storage; copying it copies a handle. reshaped() is the same storage
// and the same gradient under another shape. Tensors are made by operations and never changed afterwards. A tensor of a
// ghost tape has a shape and no storage (data() is null).
//
// Parameters are a model's weights: named, in one flat array (and their gradients in another), so that the optimizer,
// averages, clipping and sharding are loops over flat arrays. Trained ones come first. Each begins on a cache line; the
// gaps hold zeros.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/tape/pool.h"

namespace reel::tape {

using Shape = std::vector<std::int64_t>;

std::int64_t elements(const Shape& shape);
std::string shape_text(const Shape& shape);  // "[2, 3]"

struct Node {
  bool needs_gradient = false;
  std::shared_ptr<Pool::Block> gradient;  // null until something was added to it
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Shape shape, std::shared_ptr<Pool::Block> value, std::shared_ptr<Node> node = std::make_shared<Node>())
      : shape_(std::move(shape)), value_(std::move(value)), node_(std::move(node)) {}

  explicit operator bool() const { return node_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis < 0 ? shape_.size() + axis : axis]; }
  std::int64_t size() const { return elements(shape_); }
  std::int64_t rows() const;  // all axes but the last
  std::int64_t width() const { return shape_.back(); }

  float* data() const {
    REEL_CHECK(value_ != nullptr);
    return value_->data();
  }
  std::span<float> span() const { return {data(), sized(size())}; }
  bool needs_gradient() const { return node_->needs_gradient; }
  float item() const;  // the number of a tensor with one element

  Tensor reshaped(Shape shape) const;
  // The same tensor without its values: what a backward keeps that has to know where a gradient goes, not what was
  // there. Memory is free as soon as nobody needs the values.
  Tensor gradient_only() const { return {shape_, nullptr, node_}; }
  const std::shared_ptr<Pool::Block>& value() const { return value_; }
  const std::shared_ptr<Node>& node() const { return node_; }

 private:
  Shape shape_;
  std::shared_ptr<Pool::Block> value_;
  std::shared_ptr<Node> node_;
};

struct Parameter {
  std::string name;
  Shape shape;
  bool trained = true;
  float* value = nullptr;     // null before Parameters::allocate, and for ghosts
  float* gradient = nullptr;  // null where no gradients are kept
  bool fresh = true;          // no gradient has been added since clear_gradients()

  std::int64_t size() const { return elements(shape); }
  std::span<float> values() const { return {value, sized(size())}; }
};

class Parameters {
 public:
  // The reference stays valid. Names are unique.
  Parameter& add(std::string name, Shape shape, bool trained = true);

  // Memory for the values (zeros) and, for the trained ones, their gradients. Once, after the last add.
  enum class With { kValues, kGradients, kGhost, kGhostGradients };
  void allocate(With with);

  std::deque<Parameter>& all() { return all_; }
  const std::deque<Parameter>& all() const { return all_; }
  const Parameter* find(const std::string& name) const;
  Parameter* find(const std::string& name);

  std::int64_t count() const;          // numbers in all parameters
  std::int64_t trained_count() const;  // in the trained ones
  // The flat arrays of the trained parameters, gaps included.
  std::span<float> trained_values() { return {values_.data(), trained_floats_}; }
  std::span<float> gradients() { return {gradients_.data(), trained_floats_}; }
  std::size_t trained_floats() const { return trained_floats_; }
  std::size_t offset(const Parameter& p) const;  // of a trained parameter in the flat arrays
  std::size_t value_bytes() const { return floats_ * sizeof(float); }

  void clear_gradients();  // marks them as not there; the first use of each overwrites it
  // Gradients of parameters that no operation touched since clear_gradients are set to zero.
  void zero_untouched_gradients();

 private:
  std::deque<Parameter> all_;
  std::vector<std::size_t> offsets_;  // as all_, in floats
  Buffer<float> values_, gradients_;
  std::size_t floats_ = 0, trained_floats_ = 0;
};

}  // namespace reel::tape
