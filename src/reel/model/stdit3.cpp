#include "reel/model/stdit3.h"

#include <fmt/format.h>

#include <cmath>

#include "reel/base/sized.h"

namespace reel::model {

namespace {

constexpr float kEps = 1e-6f;

// Row of each (item, frame) in a tensor of [items of the true times | items of time 0].
std::vector<std::int32_t> frame_rows(const std::vector<std::uint8_t>& given, std::int64_t batch) {
  const std::int64_t frames = static_cast<std::int64_t>(given.size()) / batch;
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int64_t item = static_cast<std::int64_t>(i) / frames;
    rows.push_back(static_cast<std::int32_t>(given[i] != 0 ? batch + item : item));
  }
  return rows;
}

}  // namespace

Stdit3::Block Stdit3::add_block(const std::string& name) {
  const std::int64_t d = config_.width();
  Block b;
  b.table = &parameters_.add(name + ".scale_shift_table", {6, d});
  b.qkv = add_linear(parameters_, name + ".attn.qkv", {3 * d, d});
  b.norm_q = config_.qk_norm ? &parameters_.add(name + ".attn.q_norm.weight", {config_.head_dim}) : nullptr;
  b.norm_k = config_.qk_norm ? &parameters_.add(name + ".attn.k_norm.weight", {config_.head_dim}) : nullptr;
  b.proj = add_linear(parameters_, name + ".attn.proj", {d, d});
  b.cross_q = add_linear(parameters_, name + ".cross_attn.q_linear", {d, d});
  b.cross_kv = add_linear(parameters_, name + ".cross_attn.kv_linear", {2 * d, d});
  b.cross_proj = add_linear(parameters_, name + ".cross_attn.proj", {d, d});
  b.mlp = {add_linear(parameters_, name + ".mlp.fc1", {config_.inner(), d}),
           add_linear(parameters_, name + ".mlp.fc2", {d, config_.inner()})};
  return b;
}

Stdit3::Stdit3(const ModelConfig& config) : Denoiser(config) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.width();
  patches_ = add_linear(parameters_, "x_embedder.proj", {d, c.channels, c.patch[0], c.patch[1], c.patch[2]});
  const auto add_mlp = [&](const std::string& first, const std::string& second, std::int64_t in) {
    return Mlp{add_linear(parameters_, first, {d, in}), add_linear(parameters_, second, {d, d})};
  };
  time_ = add_mlp("t_embedder.mlp.0", "t_embedder.mlp.2", c.time_width);
  fps_ = add_mlp("fps_embedder.mlp.0", "fps_embedder.mlp.2", c.time_width);
  time_projection_ = add_linear(parameters_, "t_block.1", {6 * d, d});
  parameters_.add("y_embedder.y_embedding", {c.text_tokens, c.text_width}, false);  // stands for a dropped text
  text_ = add_mlp("y_embedder.y_proj.fc1", "y_embedder.y_proj.fc2", c.text_width);
  rope_freqs_ = &parameters_.add("rope.freqs", {c.head_dim / 2}, false);
  for (std::int64_t i = 0; i < c.layers; ++i) spatial_.push_back(add_block(fmt::format("spatial_blocks.{}", i)));
  for (std::int64_t i = 0; i < c.layers; ++i) temporal_.push_back(add_block(fmt::format("temporal_blocks.{}", i)));
  final_table_ = &parameters_.add("final_layer.scale_shift_table", {2, d});
  final_linear_ = add_linear(parameters_, "final_layer.linear", {c.patch_volume() * c.out_channels(), d});
}

std::shared_ptr<const kernels::RopeAngles> Stdit3::rope(std::int64_t frames) const {
  auto angles = kernels::rope_1d(frames, config_.head_dim, config_.rope_theta);
  angles->heads = config_.heads - config_.heads_without_rope;
  if (rope_freqs_->value == nullptr) return angles;  // a ghost
  const std::size_t pairs = sized(config_.head_dim / 2);
  for (std::size_t t = 0; t < sized(frames); ++t) {
    for (std::size_t i = 0; i < pairs; ++i) {  // as stored in the weights, angles in f32 like the original
      const double angle = static_cast<double>(static_cast<float>(t) * rope_freqs_->value[i]);
      angles->cos[t * pairs + i] = static_cast<float>(std::cos(angle));
      angles->sin[t * pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

std::shared_ptr<const Buffer<float>> Stdit3::positions(const Input& in, std::int64_t rows, std::int64_t columns) const {
  const float pixels = std::sqrt(in.height[0] * in.width[0]);  // the first of the batch counts, as in the original
  const float scale = pixels / static_cast<float>(config_.base_pixels);
  const float base = static_cast<float>(std::nearbyint(std::sqrt(static_cast<double>(rows * columns))));
  const auto place = [&](std::int64_t extent) {
    return [scale, ratio = base / static_cast<float>(extent)](std::int64_t i) {
      return static_cast<float>(i) / scale * ratio;
    };
  };
  return place_table(rows, columns, config_.width(), place(rows), place(columns));
}

Stdit3::Text Stdit3::embed_text(Tape& tape, const Input& in) const {
  const std::int64_t batch = in.text.dim(0), tokens = in.text.dim(1);
  Text text;
  text.starts = {0};
  std::vector<std::int32_t> kept;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t at = b * tokens + i;
      if (in.text_mask.empty() || in.text_mask[sized(at)] != 0) {
        kept.push_back(static_cast<std::int32_t>(at));
      }
    }
    text.starts.push_back(static_cast<std::int64_t>(kept.size()));
    if (text.starts[sized(b)] == text.starts.back()) {
      throw Error(fmt::format("mask: no token of text {} counts", b), "leave at least one token for each item");
    }
  }
  Tensor packed = in.text.reshaped({batch * tokens, in.text.dim(2)});
  if (static_cast<std::int64_t>(kept.size()) < batch * tokens)
    packed = tape::gather_rows(tape, packed, std::move(kept));
  text.tokens = text_(tape, packed, Activation::kGeluTanh);
  return text;
}

Tensor Stdit3::attention(Context& context, const Block& b, int layer, const Tensor& x, const Here& here,
                         const std::shared_ptr<const kernels::RopeAngles>& rope) const {
  Tape& tape = context.tape;
  const Tensor qkv = b.qkv(tape, x).reshaped({x.dim(0), x.dim(1), 3, config_.width()});
  const Shape heads = {x.dim(0), x.dim(1), config_.heads, config_.head_dim};
  Tensor q = tape::slice(tape, qkv, 2, 0, 1).reshaped(heads);
  Tensor k = tape::slice(tape, qkv, 2, 1, 1).reshaped(heads);
  const Tensor v = tape::slice(tape, qkv, 2, 2, 1).reshaped(heads);
  if (config_.qk_norm) {
    q = tape::rms_norm(tape, q, b.norm_q, kEps);
    k = tape::rms_norm(tape, k, b.norm_k, kEps);
  }
  if (rope != nullptr) {
    q = tape::rope(tape, q, rope);
    k = tape::rope(tape, k, rope);
  }
  return b.proj(tape, context.attend(layer, q, k, v, {}, here).reshaped(x.shape()));
}

Tensor Stdit3::cross_attention(Tape& tape, const Block& b, const Tensor& x, const Text& text) const {
  const std::int64_t batch = x.dim(0), tokens = x.dim(1) * x.dim(2), all = text.starts.back();
  const Tensor q = b.cross_q(tape, x).reshaped({batch, tokens, config_.heads, config_.head_dim});
  const Tensor kv = b.cross_kv(tape, text.tokens).reshaped({all, 2, config_.width()});
  const Shape heads = {all, config_.heads, config_.head_dim};
  const Tensor k = tape::slice(tape, kv, 1, 0, 1).reshaped(heads), v = tape::slice(tape, kv, 1, 1, 1).reshaped(heads);
  return b.cross_proj(tape, tape::cross_attention_packed(tape, q, k, v, text.starts).reshaped(x.shape()));
}

Tensor Stdit3::block(Context& context, const SpaceTime& tokens, const Block& b, int layer, Axis axis, const Tensor& x,
                     const Tensor& modulation, const Text& text,
                     const std::shared_ptr<const kernels::RopeAngles>& rope) const {
  Tape& tape = context.tape;
  const Tensor m = tape::add_table(tape, modulation, *b.table);
  const Tensor attended =
      tokens.along(axis, tape::norm_modulate(tape, x, m, 0, 1, kEps),
                   [&](const Tensor& in, const Here& here) { return attention(context, b, layer, in, here, rope); });
  Tensor y = tape::gated_residual(tape, x, attended, m, 2);
  y = tape::add(tape, y, cross_attention(tape, b, y, text));
  const Tensor fed = b.mlp(tape, tape::norm_modulate(tape, y, m, 3, 4, kEps), Activation::kGeluTanh);
  return tape::gated_residual(tape, y, fed, m, 5);
}

// Where frames are given, their rows go through the norm twice: the second norm sees what the first has modulated with
// the true time. A quirk of the original that its trained weights know.
Tensor Stdit3::final_layer(Tape& tape, const Tensor& x, const Tensor& time, const Input& in) const {
  const std::int64_t batch = x.dim(0), d = config_.width();
  const Tensor twice = tape::repeat_rows(tape, time, 2).reshaped({time.dim(0), 2, d});
  const Tensor m = tape::add_table(tape, twice, *final_table_);
  if (in.given_frames.empty()) return final_linear_(tape, tape::norm_modulate(tape, x, m, 0, 1, kEps));
  const Tensor once = tape::norm_modulate(tape, x, tape::slice(tape, m, 0, 0, batch), 0, 1, kEps);
  const Tensor again = tape::norm_modulate(tape, once, tape::slice(tape, m, 0, batch, batch), 0, 1, kEps);
  // Frames of `once` and, after all of them, those of `again`.
  const std::int64_t frames = batch * x.dim(1);
  std::vector<std::int32_t> denoised, given;
  for (std::size_t i = 0; i < in.given_frames.size(); ++i) {
    (in.given_frames[i] != 0 ? given : denoised).push_back(static_cast<std::int32_t>(i));
  }
  const auto keep = [&](const Tensor& t, const std::vector<std::int32_t>& rows) {
    // Everything but `rows` set to zero, as a gather and its opposite.
    std::vector<std::int32_t> back(sized(frames), static_cast<std::int32_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      back[sized(rows[i])] = static_cast<std::int32_t>(i);
    }
    const Tensor some = tape::gather_rows(tape, t.reshaped({frames, x.dim(2) * d}), rows);
    return tape::gather_rows(tape, tape::pad(tape, some, 0, 1), back).reshaped(x.shape());
  };
  return final_linear_(tape, tape::add(tape, keep(once, denoised), keep(again, given)));
}

Tensor Stdit3::forward(Context& context, const Input& in) {
  const ModelConfig& c = config_;
  check_input(c, in);
  Tape& tape = context.tape;
  const std::int64_t batch = in.latents.dim(0), d = c.width();
  Tensor latents = in.latents;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t extent = latents.dim(2 + axis), patch = c.patch[sized(axis)];
    latents = tape::pad(tape, latents, 2 + axis, (patch - extent % patch) % patch);
  }
  const std::array<std::int64_t, 3> grid = {latents.dim(2) / c.patch[0], latents.dim(3) / c.patch[1],
                                            latents.dim(4) / c.patch[2]};

  // Times of the items and, where frames are given, the same items at time 0.
  std::vector<float> times = in.times, fps = in.fps;
  if (!in.given_frames.empty()) {
    times.resize(2 * in.times.size(), 0.0f);
    fps.insert(fps.end(), in.fps.begin(), in.fps.end());
  }
  const Tensor time = tape::add(tape, time_(tape, time_embedding(tape, times, c.time_width), Activation::kSilu),
                                fps_(tape, time_embedding(tape, fps, c.time_width), Activation::kSilu));
  Tensor modulation = time_projection_(tape, tape::activation(tape, Activation::kSilu, time));
  if (!in.given_frames.empty()) modulation = tape::gather_rows(tape, modulation, frame_rows(in.given_frames, batch));
  modulation = modulation.reshaped({modulation.dim(0), 6, d});
  const Text text = embed_text(tape, in);

  const SpaceTime tokens(context, grid[0], grid[1] * grid[2]);
  Tensor x = tape::patchify(tape, latents, c.patch_size());
  x = patches_(tape, tokens.split(x.reshaped({batch, grid[0], grid[1] * grid[2], x.dim(2)})));
  x = tape::add_constant(tape, x, tokens.own_places(positions(in, grid[1], grid[2])));
  const auto angles = rope(grid[0]);
  for (std::size_t i = 0; i < spatial_.size(); ++i) {
    const int layer = 2 * static_cast<int>(i);
    x = run_block(context, layer, [this, &context, tokens, i, layer, x, modulation, text] {
      return block(context, tokens, spatial_[i], layer, Axis::kSpace, x, modulation, text, nullptr);
    });
    x = run_block(context, layer + 1, [this, &context, tokens, i, layer, x, modulation, text, angles] {
      return block(context, tokens, temporal_[i], layer + 1, Axis::kTime, x, modulation, text, angles);
    });
  }
  x = tokens.gather(final_layer(tape, x, time, in));
  Tensor out = tape::unpatchify(tape, x, grid, c.patch_size());
  for (int axis = 0; axis < 3; ++axis) {
    if (out.dim(2 + axis) != in.latents.dim(2 + axis))
      out = tape::slice(tape, out, 2 + axis, 0, in.latents.dim(2 + axis));
  }
  return out;
}

}  // namespace reel::model
