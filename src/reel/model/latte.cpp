#include "reel/model/latte.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/sized.h"

namespace reel::model {

Latte::Attention Latte::add_attention(const std::string& name) {
  const std::int64_t d = config_.width();
  const bool bias = config_.attention_bias;
  Attention a;
  a.q = add_linear(parameters_, name + ".to_q", {d, d}, bias);
  a.k = add_linear(parameters_, name + ".to_k", {d, d}, bias);
  a.v = add_linear(parameters_, name + ".to_v", {d, d}, bias);
  a.out = add_linear(parameters_, name + ".to_out.0", {d, d});
  return a;
}

Latte::Block Latte::add_block(const std::string& name, bool cross) {
  const std::int64_t d = config_.width();
  Block b;
  b.table = &parameters_.add(name + ".scale_shift_table", {6, d});
  b.self = add_attention(name + ".attn1");
  b.has_cross = cross;
  if (cross) b.cross = add_attention(name + ".attn2");
  b.ff = {add_linear(parameters_, name + ".ff.net.0.proj", {config_.inner(), d}),
          add_linear(parameters_, name + ".ff.net.2", {d, config_.inner()})};
  return b;
}

Latte::Latte(const ModelConfig& config) : Denoiser(config) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.width();
  patches_ = add_linear(parameters_, "pos_embed.proj", {d, c.channels, c.patch[1], c.patch[2]});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    spatial_.push_back(add_block(fmt::format("transformer_blocks.{}", i), true));
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    temporal_.push_back(add_block(fmt::format("temporal_transformer_blocks.{}", i), false));
  }
  time_ = {add_linear(parameters_, "adaln_single.emb.timestep_embedder.linear_1", {d, c.time_width}),
           add_linear(parameters_, "adaln_single.emb.timestep_embedder.linear_2", {d, d})};
  time_projection_ = add_linear(parameters_, "adaln_single.linear", {6 * d, d});
  text_ = {add_linear(parameters_, "caption_projection.linear_1", {d, c.text_width}),
           add_linear(parameters_, "caption_projection.linear_2", {d, d})};
  table_ = &parameters_.add("scale_shift_table", {2, d});
  out_ = add_linear(parameters_, "proj_out", {c.patch_volume() * c.out_channels(), d});
}

Tensor Latte::block(Context& context, const SpaceTime& tokens, const Block& b, int layer, Axis axis, const Tensor& x,
                    const Tensor& modulation, const Tensor& text) const {
  Tape& tape = context.tape;
  const float eps = static_cast<float>(config_.eps);
  const auto heads = [&](const Tensor& t) { return t.reshaped({t.dim(0), t.dim(1), config_.heads, config_.head_dim}); };
  const Tensor m = tape::add_table(tape, modulation, *b.table);
  const auto attend = [&](const Tensor& in, const Here& here) {
    const Tensor seen = context.attend(layer, heads(b.self.q(tape, in)), heads(b.self.k(tape, in)),
                                       heads(b.self.v(tape, in)), {}, here);
    return b.self.out(tape, seen.reshaped(in.shape()));
  };
  const Tensor attended = tokens.along(axis, tape::norm_modulate(tape, x, m, 0, 1, eps), attend);
  Tensor y = tape::gated_residual(tape, x, attended, m, 2);
  if (b.has_cross) {
    const Tensor flat = y.reshaped({y.dim(0), y.dim(1) * y.dim(2), y.dim(3)});
    const Tensor read = tape::cross_attention(tape, heads(b.cross.q(tape, flat)), heads(b.cross.k(tape, text)),
                                              heads(b.cross.v(tape, text)));
    y = tape::add(tape, y, b.cross.out(tape, read.reshaped(flat.shape())).reshaped(y.shape()));
  }
  const Tensor fed = b.ff(tape, tape::norm_modulate(tape, y, m, 3, 4, eps), Activation::kGeluTanh);
  return tape::gated_residual(tape, y, fed, m, 5);
}

Tensor Latte::forward(Context& context, const Input& in) {
  const ModelConfig& c = config_;
  check_input(c, in);
  if (!in.given_frames.empty()) throw Error("latte cannot be given clean frames", "use wan or stdit3");
  if (!in.text_mask.empty()) throw Error("latte takes no text mask", "leave out `mask`");
  Tape& tape = context.tape;
  const std::int64_t batch = in.latents.dim(0), frames = in.latents.dim(2), d = c.width();
  if (frames > 1 && frames != c.frames) {
    throw Error(fmt::format("hidden_states has {} frames, this model was made for {}", frames, c.frames),
                "Latte takes one frame or exactly video_length of them");
  }
  const std::array<std::int64_t, 3> grid = {frames, in.latents.dim(3) / c.patch[1], in.latents.dim(4) / c.patch[2]};

  const Tensor time = time_(tape, time_embedding(tape, in.times, c.time_width), Activation::kSilu);
  const Tensor modulation =
      time_projection_(tape, tape::activation(tape, Activation::kSilu, time)).reshaped({batch, 6, d});
  const Tensor text = text_(tape, in.text, Activation::kGeluTanh);

  // Positions are stretched so that any frame size covers the range of the trained one.
  const std::int64_t base_patches = c.base_latents / c.patch[1],
                     zoom_factor = std::max<std::int64_t>(c.base_latents / 64, 1);
  const float base = static_cast<float>(base_patches), zoom = static_cast<float>(zoom_factor);
  const auto place = [&](std::int64_t extent) {
    return [zoom, ratio = static_cast<float>(extent) / base](std::int64_t i) {
      return static_cast<float>(i) / ratio / zoom;
    };
  };
  const SpaceTime tokens(context, frames, grid[1] * grid[2]);
  Tensor x = tape::patchify(tape, in.latents, c.patch_size());
  x = patches_(tape, tokens.split(x.reshaped({batch, frames, grid[1] * grid[2], x.dim(2)})));
  x = tape::add_constant(tape, x, tokens.own_places(place_table(grid[1], grid[2], d, place(grid[1]), place(grid[2]))));
  for (std::size_t i = 0; i < spatial_.size(); ++i) {
    const int layer = 2 * static_cast<int>(i);
    x = run_block(context, layer, [this, &context, tokens, i, layer, x, modulation, text] {
      return block(context, tokens, spatial_[i], layer, Axis::kSpace, x, modulation, text);
    });
    if (i == 0 && frames > 1) {
      auto table = std::make_shared<Buffer<float>>(sized(frames * x.dim(2) * d));
      for (std::int64_t row = 0; row < frames * x.dim(2); ++row) {
        const std::int64_t frame = row / x.dim(2);
        sine_cosine(static_cast<double>(frame), {table->data() + row * d, sized(d)});
      }
      x = tape::add_constant(tape, x, std::move(table));
    }
    x = run_block(context, layer + 1, [this, &context, tokens, i, layer, x, modulation] {
      return block(context, tokens, temporal_[i], layer + 1, Axis::kTime, x, modulation, Tensor());
    });
  }
  const Tensor twice = tape::repeat_rows(tape, time, 2).reshaped({batch, 2, d});
  const Tensor m = tape::add_table(tape, twice, *table_);
  x = tokens.gather(out_(tape, tape::norm_modulate(tape, x, m, 0, 1, 1e-6f)));
  return tape::unpatchify(tape, x, grid, c.patch_size());
}

}  // namespace reel::model
