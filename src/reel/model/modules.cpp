#include "reel/model/modules.h"

#include <fmt/format.h>

#include <cmath>

#include "reel/base/sized.h"
#include "reel/model/family.h"

namespace reel::model {

Linear add_linear(tape::Parameters& parameters, const std::string& name, Shape weight, bool bias) {
  const std::int64_t out = weight[0];
  Linear linear;
  linear.weight = &parameters.add(name + ".weight", std::move(weight));
  if (bias) linear.bias = &parameters.add(name + ".bias", {out});
  return linear;
}

Tensor time_embedding(Tape& tape, std::span<const float> times, std::int64_t width) {
  const std::int64_t half = width / 2;
  Buffer<float> values(times.size() * sized(width));
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (std::int64_t k = 0; k < half; ++k) {
      const float exponent = static_cast<float>(-std::log(10000.0)) * static_cast<float>(k) / static_cast<float>(half);
      const float frequency = static_cast<float>(std::exp(static_cast<double>(exponent)));
      const float angle = times[i] * frequency;
      float* row = values.data() + i * sized(width);
      row[k] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + k] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return tape.copy_in({static_cast<std::int64_t>(times.size()), width}, values);
}

void sine_cosine(double position, std::span<float> out) {
  const std::size_t half = out.size() / 2;
  for (std::size_t k = 0; k < half; ++k) {
    const double angle = position * std::pow(10000.0, -static_cast<double>(k) / static_cast<double>(half));
    out[k] = static_cast<float>(std::sin(angle));
    out[half + k] = static_cast<float>(std::cos(angle));
  }
}

std::shared_ptr<const Buffer<float>> place_table(std::int64_t rows, std::int64_t columns, std::int64_t width,
                                                 const std::function<float(std::int64_t)>& row,
                                                 const std::function<float(std::int64_t)>& column) {
  const std::size_t half = sized(width / 2);
  auto table = std::make_shared<Buffer<float>>(sized(rows * columns * width));
  float* at = table->data();
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x, at += width) {
      sine_cosine(column(x), {at, half});
      sine_cosine(row(y), {at + half, half});
    }
  }
  return table;
}

Tensor run_block(Context& context, int layer, const std::function<Tensor()>& block) {
  context.tape.set_layer(layer);
  const auto work = [&tape = context.tape, layer, block] {
    tape.set_layer(layer);
    return block();
  };
  const Tensor y = context.recompute ? context.tape.recompute(work) : work();
  context.tape.set_layer(-1);
  return y;
}

void check_input(const ModelConfig& c, const Input& in) {
  const auto refuse = [](const char* what, const Shape& found, const std::string& wanted) {
    throw Error(fmt::format("{} is {}, this model takes {}", what, tape::shape_text(found), wanted), "");
  };
  const Shape& latents = in.latents.shape();
  if (latents.size() != 5 || latents[1] != c.channels || latents[0] < 1) {
    refuse("hidden_states", latents, fmt::format("[batch, {}, frames, height, width]", c.channels));
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (latents[2 + axis] < 1 || (!family_of(c).pads && latents[2 + axis] < c.patch[axis])) {
      refuse("hidden_states", latents, fmt::format("at least one patch of [{}]", fmt::join(c.patch, ", ")));
    }
  }
  const std::int64_t batch = latents[0];
  const Shape& text = in.text.shape();
  if (text.size() != 3 || text[0] != batch || text[2] != c.text_width || text[1] < 1) {
    refuse("encoder_hidden_states", text, fmt::format("[{}, tokens, {}]", batch, c.text_width));
  }
  const auto need = [&](const char* what, std::size_t found, std::int64_t wanted, bool may_be_empty) {
    if ((may_be_empty && found == 0) || static_cast<std::int64_t>(found) == wanted) return;
    throw Error(fmt::format("{} has {} numbers, this input needs {}", what, found, wanted), "");
  };
  need("timestep", in.times.size(), batch, false);
  need("x_mask", in.given_frames.size(), batch * patch_frames(c, latents[2]), true);
  need("mask", in.text_mask.size(), batch * text[1], true);
  if (family_of(c).wants_size) {
    need("fps", in.fps.size(), batch, false);
    need("height", in.height.size(), batch, false);
    need("width", in.width.size(), batch, false);
    // Positions are scaled by the size of the first clip.
    if (!(in.height[0] > 0) || !(in.width[0] > 0)) {
      throw Error(fmt::format("height {}, width {}", in.height[0], in.width[0]), "give the size of a frame in pixels");
    }
  }
}

}  // namespace reel::model
