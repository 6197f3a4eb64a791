#include "reel/train/restore.h"

#include <algorithm>
#include <cmath>

#include "reel/diffusion/sampler.h"
#include "reel/train/sampling.h"

namespace reel::train {

double restore_level(const diffusion::DiffusionConfig& config) {
  const double t = config.timesteps == "uniform" ? 0.84 : 1 / (1 + std::exp(-(config.logit_mean + config.logit_std)));
  return diffusion::shifted(t, config.shift);
}

double psnr(const diffusion::ClipShape& shape, std::int64_t given, std::span<const float> a, std::span<const float> b) {
  REEL_CHECK(a.size() == shape.size() && b.size() == shape.size());
  double squares = 0, count = 0;
  for (std::int64_t clip = 0; clip < shape.batch; ++clip) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const std::size_t end = shape.at(clip, c, shape.frames);
      for (std::size_t i = shape.at(clip, c, given); i < end; ++i, ++count) {
        squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
      }
    }
  }
  return 10 * std::log10(4 * count / squares);
}

std::vector<RestoredClip> restore_held_out(Trainer& trainer, data::Source& source, double level, std::int64_t count) {
  REEL_CHECK(trainer.team() == nullptr);
  const RunConfig& c = trainer.config();
  const diffusion::ClipShape shape = clip_shape(c, 1);
  const std::int64_t given = c.diffusion.conditioning_frames;
  tape::Pool pool;
  std::vector<RestoredClip> out;
  for (std::int64_t i = 0; i < std::min(count, source.size(data::Split::kValidation)); ++i) {
    RestoredClip clip{.number = i};
    if (!source.read(data::Split::kValidation, i, clip.truth)) continue;
    clip.noised = Buffer<float>(shape.size());
    std::copy(clip.truth.values.begin(), clip.truth.values.end(), clip.noised.begin());
    diffusion::noise_clip(shape, level, {.first_sample = i, .conditioning_frames = given}, clip.noised);
    clip.restored = Buffer<float>(shape.size());
    std::copy(clip.noised.begin(), clip.noised.end(), clip.restored.begin());
    sample_clips(c, trainer.model(), pool, trainer.threads(), clip.truth.text,
                 {.steps = 1,
                  .guidance = 1,
                  .level = level,
                  .sparsity = trainer.sparsity(),
                  .trained_steps = trainer.steps_done()},
                 clip.restored);
    clip.psnr_noised = psnr(shape, given, clip.noised, clip.truth.values);
    clip.psnr = psnr(shape, given, clip.restored, clip.truth.values);
    out.push_back(std::move(clip));
  }
  return out;
}

}  // namespace reel::train
