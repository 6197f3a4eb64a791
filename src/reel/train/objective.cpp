#include "reel/train/objective.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/model/family.h"

namespace reel::train {

using diffusion::ClipShape;
using diffusion::Draws;
using tape::Tensor;

diffusion::Kind kind_of(const RunConfig& c) {
  return diffusion::kind_of(c.diffusion,
                            model::family_of(c.model).ddpm ? diffusion::Kind::kDdpm : diffusion::Kind::kFlow);
}

diffusion::Velocity velocity_of(const model::ModelConfig& c) {
  return model::family_of(c).data_minus_noise ? diffusion::Velocity::kDataMinusNoise
                                              : diffusion::Velocity::kNoiseMinusData;
}

ClipShape clip_shape(const RunConfig& c, std::int64_t batch) {
  return {batch, c.model.channels, c.video.frames, c.video.height, c.video.width};
}

Buffer<float> null_text(const model::Denoiser& model, const RunConfig& c) {
  Buffer<float> text = Buffer<float>::zeros(sized(c.text_tokens * c.text_width));
  const tape::Parameter* null = model.parameters().find("y_embedder.y_embedding");
  if (null != nullptr && null->value != nullptr) {
    std::copy_n(null->value, std::min<std::size_t>(text.size(), sized(null->size())), text.data());
  }
  return text;
}

model::Input model_input(const RunConfig& c, std::span<const float> frame_times, std::int64_t batch) {
  model::Input in;
  for (std::int64_t b = 0; b < batch; ++b) {  // the last frame is never given
    in.times.push_back(frame_times.empty() ? 500.0f : frame_times[sized((b + 1) * c.video.frames - 1)]);
  }
  const std::int64_t given = c.diffusion.conditioning_frames / c.model.patch[0];
  const std::int64_t frames = model::patch_frames(c.model, c.video.frames);
  if (given > 0) {
    for (std::int64_t i = 0; i < batch * frames; ++i) in.given_frames.push_back(i % frames < given ? 1 : 0);
  }
  in.fps.assign(sized(batch), static_cast<float>(c.video.fps));
  in.height.assign(sized(batch), static_cast<float>(c.video.height));
  in.width.assign(sized(batch), static_cast<float>(c.video.width));
  return in;
}

Objective::Objective(const RunConfig& config) : config_(config), kind_(kind_of(config)) {
  if (kind_ != diffusion::Kind::kDdpm) return;
  schedule_ = diffusion::ddpm_schedule();
  if (config.model.out_channels() != 2 * config.model.channels) {
    throw Error("diffusion.kind is ddpm, which learns the variance, but the model has no channels for it",
                "set model.sigma = true");
  }
}

Objective::Example Objective::noise(const data::Batch& batch, const ClipShape& shape, const Draws& draws) const {
  Example example;
  example.noise = Buffer<float>(shape.size());
  diffusion::fill_noise(diffusion::Purpose::kTrainingNoise, draws, shape, example.noise);
  if (kind_ == diffusion::Kind::kFlow) {
    const std::vector<float> times = diffusion::draw_flow_times(config_.diffusion, draws, shape.batch);
    example.noised = diffusion::flow_noise(shape, batch.values, example.noise, times,
                                           config_.diffusion.conditioning_frames, velocity_of(config_.model));
  } else {
    example.steps = diffusion::draw_ddpm_steps(schedule_, draws, shape.batch);
    example.noised = diffusion::ddpm_noise(schedule_, shape, batch.values, example.noise, example.steps,
                                           config_.diffusion.conditioning_frames);
  }
  return example;
}

Buffer<float> Objective::text(const model::Denoiser& model, const data::Batch& batch, std::int64_t clips,
                              const Draws& draws, bool drop_text) const {
  const std::size_t each = sized(config_.text_tokens * config_.text_width);
  Buffer<float> text(each * sized(clips));
  const Buffer<float> null = null_text(model, config_);
  const auto dropped = diffusion::draw_text_dropout(drop_text ? config_.diffusion.text_dropout : 0.0, draws, clips);
  for (std::size_t b = 0; b < sized(clips); ++b) {
    const float* from = dropped[b] != 0 || batch.text.size() == 0 ? null.data() : batch.text.data() + b * each;
    std::copy_n(from, each, text.data() + b * each);
  }
  return text;
}

Tensor Objective::loss(model::Context& context, model::Denoiser& model, const data::Batch& batch, std::int64_t clips,
                       const Draws& draws, bool drop_text) const {
  tape::Tape& tape = context.tape;
  const ClipShape shape = clip_shape(config_, clips);
  const tape::Shape latents = {clips, shape.channels, shape.frames, shape.height, shape.width};
  const tape::Shape texts = {clips, config_.text_tokens, config_.text_width};
  if (tape.ghost()) {
    model::Input in = model_input(config_, {}, clips);
    in.latents = tape.make(latents);
    in.text = tape.make(texts);
    const Tensor output = model.forward(context, in);
    return tape::given_loss(tape, output, 0, tape.make(output.shape()));
  }
  const Example example = noise(batch, shape, draws);
  model::Input in = model_input(config_, example.noised.frame_times, clips);
  in.latents = tape.copy_in(latents, example.noised.x);
  in.text = tape.copy_in(texts, text(model, batch, clips, draws, drop_text));
  const Tensor output = model.forward(context, in);
  const Tensor gradient = tape.make(output.shape());
  const double value = kind_ == diffusion::Kind::kFlow
                           ? diffusion::flow_loss(shape, output.dim(1), output.span(), example.noised, gradient.span())
                           : diffusion::ddpm_loss(schedule_, shape, output.span(), batch.values, example.noised,
                                                  example.steps, gradient.span())
                                 .total();
  return tape::given_loss(tape, output, value, gradient);
}

}  // namespace reel::train
