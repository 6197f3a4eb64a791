// The operations that video transformers are made of. Each has its forward, its backward and its cost in one file.
//
// Tensors are contiguous, the last axis is the fastest. "Rows" are all axes but the last. Token tensors are
// [batch, tokens, width] or [batch, frames, places, width]; attention takes [batch, tokens, heads, head_dim], which is
// a reshaped [batch, tokens, width].
//
// A modulation tensor is [items, n, width]: n vectors (shift, scale, gate, ...) for each item, an item being a batch
// entry or a frame. Row r of x belongs to item r / (rows of x / items).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reel/kernels/activation.h"
#include "reel/kernels/rope_angles.h"
#include "reel/lists/view.h"
#include "reel/tape/tape.h"

namespace reel::tape {

using kernels::Activation;

// --- linear.cpp
// y = activation(x W^T + b); x [..., in], w [out, in] (further axes of w count as in), b [out] or null.
Tensor linear(Tape& tape, const Tensor& x, Parameter& w, Parameter* b, Activation activation = Activation::kNone);
// linear(activation(linear(x))). Of the inner layer only what goes into the activation is kept; backward computes what
// came out again: an eighth of the memory of a training step for half a percent of its time.
Tensor mlp(Tape& tape, const Tensor& x, Parameter& w1, Parameter* b1, Activation activation, Parameter& w2,
           Parameter* b2);

// --- elementwise.cpp
Tensor activation(Tape& tape, Activation kind, const Tensor& x);
Tensor add(Tape& tape, const Tensor& a, const Tensor& b);
Tensor scale(Tape& tape, float factor, const Tensor& x);
// x + table, the table repeated over the leading axes: [items, n, width] + [n, width] (a leading 1 is fine).
Tensor add_table(Tape& tape, const Tensor& x, Parameter& table);
// x + values, constants repeated over the leading axes (position embeddings): values.size() divides x.size().
Tensor add_constant(Tape& tape, const Tensor& x, std::shared_ptr<const Buffer<float>> values);
// x [items, n] with its rows repeated: [items * times, n]; each row `times` times in a row.
Tensor repeat_rows(Tape& tape, const Tensor& x, std::int64_t times);
// Rows of x [rows, n] by index: [index.size(), n].
Tensor gather_rows(Tape& tape, const Tensor& x, std::vector<std::int32_t> index);

// --- norm.cpp
struct Affine {  // null: ones and zeros
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
};
Tensor layer_norm(Tape& tape, const Tensor& x, Affine affine, float eps);
// RMS norm over the last `width` numbers; width 0: over the whole last axis. weight [width] or null.
Tensor rms_norm(Tape& tape, const Tensor& x, Parameter* weight, float eps, std::int64_t width = 0);

// --- modulate.cpp
// layer_norm(x) * (1 + m[scale]) + m[shift]. What is between is not kept.
Tensor norm_modulate(Tape& tape, const Tensor& x, const Tensor& m, int shift, int scale, float eps);
// x + m[gate] * r
Tensor gated_residual(Tape& tape, const Tensor& x, const Tensor& r, const Tensor& m, int gate);

// --- rope.cpp
// x [..., tokens, heads, head_dim]
Tensor rope(Tape& tape, const Tensor& x, const std::shared_ptr<const kernels::RopeAngles>& angles);

// --- attention.cpp
// q [batch, queries, heads, head_dim], k and v [batch, keys, heads, head_dim] -> [batch, queries, heads, head_dim].
// Scores are scaled by 1 / sqrt(head_dim). Self-attention; no lists: all keys.
Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, lists::ListsView lists = {});
// The same with keys from elsewhere (a text), all of them. The record tells both kinds apart.
Tensor cross_attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v);
// Keys of all batch entries packed: k and v [all keys, heads, head_dim], entry b has keys starts[b] to starts[b + 1].
Tensor cross_attention_packed(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                              std::vector<std::int64_t> starts);

// --- permute.cpp
// Axis i of the result is axis order[i] of x.
Tensor permute(Tape& tape, const Tensor& x, const std::vector<int>& order);
// The part [first, first + count) of an axis; backward fills the rest with zeros.
Tensor slice(Tape& tape, const Tensor& x, int axis, std::int64_t first, std::int64_t count);
// Tensors one after another along an axis; the opposite of slices.
Tensor concatenate(Tape& tape, const std::vector<Tensor>& parts, int axis);
// Zeros added at the end of an axis.
Tensor pad(Tape& tape, const Tensor& x, int axis, std::int64_t count);
// [batch, channels, T, H, W] -> [batch, tokens, channels * pt * ph * pw], tokens in raster order of patches; what does
// not fill a patch is left out.
Tensor patchify(Tape& tape, const Tensor& x, const std::array<std::int64_t, 3>& patch);
// [batch, tokens, pt * ph * pw * channels] -> [batch, channels, t pt, h ph, w pw], channels fastest within a patch.
Tensor unpatchify(Tape& tape, const Tensor& x, const std::array<std::int64_t, 3>& grid,
                  const std::array<std::int64_t, 3>& patch);

// --- loss.cpp
// The target gets no gradient.
Tensor mean_squared_error(Tape& tape, const Tensor& x, const Tensor& target);
// A loss computed elsewhere: its value, and its gradient with respect to x.
Tensor given_loss(Tape& tape, const Tensor& x, double value, const Tensor& gradient);

}  // namespace reel::tape
