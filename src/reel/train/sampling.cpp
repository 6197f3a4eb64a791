#include "reel/train/sampling.h"

#include <algorithm>

#include "reel/diffusion/sampler.h"

namespace reel::train {

void sample_clips(const RunConfig& config, model::Denoiser& model, tape::Pool& pool, Threads& threads,
                  std::span<const float> texts, const SampleOptions& options, std::span<float> clips) {
  const std::int64_t text_floats = config.text_tokens * config.text_width;
  const std::int64_t count = static_cast<std::int64_t>(texts.size()) / text_floats;
  const diffusion::ClipShape shape = clip_shape(config, count);
  REEL_CHECK(clips.size() == shape.size());
  Buffer<float> nothing(texts.size());
  const Buffer<float> null = null_text(model, config);
  for (std::size_t at = 0; at < nothing.size(); at += null.size())
    std::copy(null.begin(), null.end(), nothing.data() + at);

  sparsity::HeldLists held;  // of these clips: what others left behind is no part of them
  const auto denoise = [&](std::span<const float> x, std::span<const float> frame_times, bool with_text,
                           std::span<float> out) {
    tape::Tape tape(threads, pool, {.gradients = false});
    model::Context context(
        tape, {.kind = sparsity::Pass::Kind::kSampling, .step = options.trained_steps, .stream = with_text ? 0 : 1},
        options.sparsity, &held);
    context.team = options.team;
    model::Input in = model_input(config, frame_times, count);
    in.latents = tape.copy_in({count, shape.channels, shape.frames, shape.height, shape.width}, x);
    in.text = tape.copy_in({count, config.text_tokens, config.text_width}, with_text ? texts : nothing);
    const tape::Tensor result = model.forward(context, in);
    std::copy_n(result.data(), out.size(), out.data());
  };
  const diffusion::SamplerOptions sampler{.steps = options.steps,
                                          .guidance = options.guidance,
                                          .seed = options.seed,
                                          .first_sample = options.first_sample,
                                          .conditioning_frames = config.diffusion.conditioning_frames,
                                          .progress = options.progress};
  const std::int64_t channels = model.config().out_channels();
  const bool flow = kind_of(config) == diffusion::Kind::kFlow;
  REEL_CHECK(flow || options.level == 1);
  if (options.level < 1) {
    diffusion::restore_flow(shape, channels, denoise, velocity_of(config.model), options.level, sampler, clips);
  } else if (flow) {
    diffusion::sample_flow(shape, channels, denoise, velocity_of(config.model), config.diffusion.shift, sampler, clips);
  } else if (options.ancestral) {
    diffusion::sample_ddpm(shape, denoise, sampler, clips);
  } else {
    diffusion::sample_ddim(shape, channels, denoise, options.eta, sampler, clips);
  }
}

}  // namespace reel::train
