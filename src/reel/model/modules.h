// The pieces that the families share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "reel/model/denoiser.h"

namespace reel::model {

using tape::Activation;
using tape::Shape;

struct Linear {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
  Tensor operator()(Tape& tape, const Tensor& x, Activation activation = Activation::kNone) const {
    return tape::linear(tape, x, *weight, bias, activation);
  }
};
// Tensors <name>.weight [out, in...] and <name>.bias [out].
Linear add_linear(tape::Parameters& parameters, const std::string& name, Shape weight, bool bias = true);

// Two linear layers with an activation between.
struct Mlp {
  Linear first, second;
  Tensor operator()(Tape& tape, const Tensor& x, Activation activation) const {
    return tape::mlp(tape, x, *first.weight, first.bias, activation, *second.weight, second.bias);
  }
};

// [cos(t f_0), ..., sin(t f_0), ...] with f_k = 10000^(-k / (width / 2)), one row for each time. In f32, as PyTorch
// computes it: in double the result differs by up to 3.5e-5 at t = 1000, and trained weights know the former.
Tensor time_embedding(Tape& tape, std::span<const float> times, std::int64_t width);

// Position table of a frame, [rows * columns, width]: the first half of the numbers encodes the column, the second the
// row; within a half [sin(p f_0), ..., cos(p f_0), ...]. `column(i)` and `row(i)` say which position p that is.
std::shared_ptr<const Buffer<float>> place_table(std::int64_t rows, std::int64_t columns, std::int64_t width,
                                                 const std::function<float(std::int64_t)>& row,
                                                 const std::function<float(std::int64_t)>& column);
// [sin(p f_0), ..., cos(p f_0), ...] with f_k = 10000^(-k / (width / 2)), into `out`.
void sine_cosine(double position, std::span<float> out);

// Runs a block, again in backward where the context says so.
Tensor run_block(Context& context, int layer, const std::function<Tensor()>& block);

// Checks shapes that come from outside: latents [batch, channels, ...], text [batch, tokens, text_width], one time an
// item, masks of the right size. An Error names the tensor and what it should be.
void check_input(const ModelConfig& config, const Input& input);

}  // namespace reel::model
