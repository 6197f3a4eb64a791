#include "reel/model/wan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "reel/base/sized.h"
#include "reel/parallel/shard.h"

namespace reel::model {

namespace {

// Frames at which given and other frames meet, in any item of the batch: tiles of tokens do not reach over them.
std::vector<std::int64_t> cuts_between(const std::vector<std::uint8_t>& given, std::int64_t frames) {
  std::vector<std::int64_t> cuts;
  for (std::int64_t t = 1; t < frames; ++t) {
    for (std::size_t item = 0; item < given.size(); item += sized(frames)) {
      const std::size_t at = item + sized(t);
      if (given[at] != given[at - 1] && (cuts.empty() || cuts.back() != t)) cuts.push_back(t);
    }
  }
  return cuts;
}

// `rows` of every item of x [batch, tokens, width].
Tensor reorder(Tape& tape, const Tensor& x, const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> index;
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    for (const std::int32_t row : rows) index.push_back(static_cast<std::int32_t>(b * x.dim(1)) + row);
  }
  return tape::gather_rows(tape, x.reshaped({x.dim(0) * x.dim(1), x.dim(2)}), std::move(index)).reshaped(x.shape());
}

// The positions travel with the tokens: those of `rows`.
std::shared_ptr<kernels::RopeAngles> reorder(const kernels::RopeAngles& angles, std::span<const std::int32_t> rows) {
  auto result = std::make_shared<kernels::RopeAngles>();
  const std::size_t pairs = angles.cos.size() / sized(angles.period);
  result->cos = Buffer<float>(rows.size() * pairs);
  result->sin = Buffer<float>(rows.size() * pairs);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(angles.cos.data() + sized(rows[i]) * pairs, pairs, result->cos.data() + i * pairs);
    std::copy_n(angles.sin.data() + sized(rows[i]) * pairs, pairs, result->sin.data() + i * pairs);
  }
  result->period = static_cast<std::int64_t>(rows.size());
  result->pairing = angles.pairing;
  return result;
}

// Rows of [batch * frames, ...] that modulate the tokens [first, last) of every item, one for each run of `run` tokens.
// Given and other frames meet at the frames `cuts`; a run does not reach over them, and is as long as can be.
std::vector<std::int32_t> modulating_rows(std::int64_t batch, std::int64_t frames, std::int64_t places,
                                          const std::vector<std::int64_t>& cuts, std::int64_t first,
                                          std::int64_t last) {
  std::int64_t run = last - first;
  for (const std::int64_t cut : cuts) run = std::gcd(run, std::clamp(cut * places, first, last) - first);
  std::vector<std::int32_t> rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = first; t < last; t += run) rows.push_back(static_cast<std::int32_t>(b * frames + t / places));
  }
  return rows;
}

}  // namespace

Wan::Attention Wan::add_attention(const std::string& name) {
  const std::int64_t d = config_.width();
  Attention a;
  a.q = add_linear(parameters_, name + ".to_q", {d, d});
  a.k = add_linear(parameters_, name + ".to_k", {d, d});
  a.v = add_linear(parameters_, name + ".to_v", {d, d});
  a.out = add_linear(parameters_, name + ".to_out.0", {d, d});
  a.norm_q = &parameters_.add(name + ".norm_q.weight", {d});
  a.norm_k = &parameters_.add(name + ".norm_k.weight", {d});
  return a;
}

Wan::Wan(const ModelConfig& config) : Denoiser(config) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.width();
  patch_embedding_ = add_linear(parameters_, "patch_embedding", {d, c.channels, c.patch[0], c.patch[1], c.patch[2]});
  const std::string embedder = "condition_embedder.";
  time_ = {add_linear(parameters_, embedder + "time_embedder.linear_1", {d, c.time_width}),
           add_linear(parameters_, embedder + "time_embedder.linear_2", {d, d})};
  time_projection_ = add_linear(parameters_, embedder + "time_proj", {6 * d, d});
  text_ = {add_linear(parameters_, embedder + "text_embedder.linear_1", {d, c.text_width}),
           add_linear(parameters_, embedder + "text_embedder.linear_2", {d, d})};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string name = fmt::format("blocks.{}.", i);
    Block block;
    block.table = &parameters_.add(name + "scale_shift_table", {1, 6, d});
    block.self = add_attention(name + "attn1");
    if (c.cross_norm) {
      block.norm = {&parameters_.add(name + "norm2.weight", {d}), &parameters_.add(name + "norm2.bias", {d})};
    }
    block.cross = add_attention(name + "attn2");
    block.ffn = {add_linear(parameters_, name + "ffn.net.0.proj", {c.inner(), d}),
                 add_linear(parameters_, name + "ffn.net.2", {d, c.inner()})};
    blocks_.push_back(block);
  }
  out_ = add_linear(parameters_, "proj_out", {c.out_channels() * c.patch_volume(), d});
  table_ = &parameters_.add("scale_shift_table", {1, 2, d});
}

Tensor Wan::self_attention(Context& context, int layer, const Attention& a, const Tensor& x,
                           const Positions& at) const {
  Tape& tape = context.tape;
  const float eps = static_cast<float>(config_.eps);
  const Shape heads = {x.dim(0), x.dim(1), config_.heads, config_.head_dim};
  const Tensor q = tape::rope(tape, tape::rms_norm(tape, a.q(tape, x), a.norm_q, eps).reshaped(heads), at.own);
  const Tensor k = tape::rope(tape, tape::rms_norm(tape, a.k(tape, x), a.norm_k, eps).reshaped(heads), at.own);
  const Tensor v = a.v(tape, x).reshaped(heads);
  const auto side = [](const Linear& linear, const Parameter* norm) {
    return predict::Projection{linear.weight->value, linear.bias->value, norm->values()};
  };
  const predict::Origin origin{x.data(), x.width(), side(a.q, a.norm_q), side(a.k, a.norm_k), at.all.get()};
  return a.out(tape, context.attend(layer, q, k, v, origin, at.here).reshaped(x.shape()));
}

Tensor Wan::cross_attention(Tape& tape, const Attention& a, const Tensor& x, const Tensor& text) const {
  const float eps = static_cast<float>(config_.eps);
  const auto heads = [&](const Tensor& t) { return t.reshaped({t.dim(0), t.dim(1), config_.heads, config_.head_dim}); };
  const Tensor q = tape::rms_norm(tape, a.q(tape, x), a.norm_q, eps);
  const Tensor k = tape::rms_norm(tape, a.k(tape, text), a.norm_k, eps);
  const Tensor v = a.v(tape, text);
  return a.out(tape, tape::cross_attention(tape, heads(q), heads(k), heads(v)).reshaped(x.shape()));
}

Tensor Wan::forward(Context& context, const Input& in) {
  const ModelConfig& c = config_;
  check_input(c, in);
  Tape& tape = context.tape;
  const float eps = static_cast<float>(c.eps);
  const std::int64_t d = c.width();
  const std::array<std::int64_t, 3> grid = {in.latents.dim(2) / c.patch[0], in.latents.dim(3) / c.patch[1],
                                            in.latents.dim(4) / c.patch[2]};

  const std::int64_t batch = in.latents.dim(0), places = grid[1] * grid[2];
  const std::vector<std::int64_t> cuts = cuts_between(in.given_frames, grid[0]);
  const std::vector<std::int32_t> order = context.order(grid, cuts);
  auto angles = kernels::rope_3d(grid[0], grid[1], grid[2], c.head_dim, c.rope_theta);
  if (!order.empty()) angles = reorder(*angles, order);
  angles->heads = c.heads - c.heads_without_rope;
  Positions at{angles, angles, {}};
  comm::Comm* const sequence =
      context.team != nullptr && context.team->sequence().size() > 1 ? &context.team->sequence() : nullptr;
  const layout::Cut cut = context.resting_tokens(grid[0] * places, sequence != nullptr ? sequence->size() : 1);
  if (sequence != nullptr) {
    std::vector<std::int32_t> own(sized(cut.size(sequence->rank())));
    std::iota(own.begin(), own.end(), static_cast<std::int32_t>(cut.begin(sequence->rank())));
    auto own_angles = reorder(*angles, own);
    own_angles->heads = angles->heads;
    at.own = own_angles;
    at.here = TokensHere{cut};
  }

  // One modulation an item, or one a frame where some frames are given.
  std::vector<float> times = in.times;
  if (!in.given_frames.empty()) {
    times.clear();
    for (std::size_t i = 0; i < in.given_frames.size(); ++i) {
      times.push_back(in.given_frames[i] != 0 ? 0.0f : in.times[i / sized(grid[0])]);
    }
  }
  const std::int64_t items = static_cast<std::int64_t>(times.size());
  const Tensor time = time_(tape, time_embedding(tape, times, c.time_width), Activation::kSilu);
  Tensor modulation = time_projection_(tape, tape::activation(tape, Activation::kSilu, time)).reshaped({items, 6, d});
  // One a frame is too coarse where a rank's tokens begin or end within a frame.
  std::vector<std::int32_t> rows;
  if (sequence != nullptr && !in.given_frames.empty()) {
    rows = modulating_rows(batch, grid[0], places, cuts, cut.begin(sequence->rank()), cut.end(sequence->rank()));
  }
  const auto modulate_runs = [&](const Tensor& m) {
    if (rows.empty()) return m;
    const auto runs = static_cast<std::int64_t>(rows.size());
    return tape::gather_rows(tape, m.reshaped({items, m.dim(1) * d}), rows).reshaped({runs, m.dim(1), d});
  };
  modulation = modulate_runs(modulation);

  Tensor text_in = in.text;
  if (c.official_names && c.text_tokens > text_in.dim(1)) {  // as the official model does; the zeros are attended to
    text_in = tape::pad(tape, text_in, 1, c.text_tokens - text_in.dim(1));
  }
  const Tensor text = text_(tape, text_in, Activation::kGeluTanh);

  Tensor patches = tape::patchify(tape, in.latents, c.patch_size());
  if (!order.empty()) patches = reorder(tape, patches, order);
  if (sequence != nullptr) patches = parallel::split(tape, *sequence, patches, 1, cut);
  Tensor x = patch_embedding_(tape, patches);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int layer = static_cast<int>(i);
    x = run_block(context, layer, [this, &context, layer, x, modulation, text, at, eps] {
      Tape& t = context.tape;
      const Block& block = blocks_[sized(layer)];
      const Tensor m = tape::add_table(t, modulation, *block.table);
      Tensor y = self_attention(context, layer, block.self, tape::norm_modulate(t, x, m, 0, 1, eps), at);
      y = tape::gated_residual(t, x, y, m, 2);
      const Tensor normed = config_.cross_norm ? tape::layer_norm(t, y, block.norm, eps) : y;
      y = tape::add(t, y, cross_attention(t, block.cross, normed, text));
      const Tensor fed = block.ffn(t, tape::norm_modulate(t, y, m, 3, 4, eps), Activation::kGeluTanh);
      return tape::gated_residual(t, y, fed, m, 5);
    });
  }

  // [shift, scale] = table + time: the time embedding itself, not its projection.
  const Tensor twice = modulate_runs(tape::repeat_rows(tape, time, 2).reshaped({items, 2, d}));
  const Tensor m = tape::add_table(tape, twice, *table_);
  x = out_(tape, tape::norm_modulate(tape, x, m, 0, 1, eps));
  if (sequence != nullptr) x = parallel::gather(tape, *sequence, x, 1, cut);
  if (!order.empty()) x = reorder(tape, x, lists::inverse(order));
  return tape::unpatchify(tape, x, grid, c.patch_size());
}

}  // namespace reel::model
