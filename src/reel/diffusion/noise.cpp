#include "reel/diffusion/noise.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::diffusion {

namespace {

Random stream(Purpose purpose, const Draws& draws) {
  REEL_CHECK(draws.step >= 0 && draws.step < std::int64_t{1} << 48);
  return Random(draws.seed, static_cast<std::uint64_t>(purpose) << 48 | static_cast<std::uint64_t>(draws.step));
}

std::uint64_t number(const Draws& draws, std::int64_t sample) {
  REEL_CHECK(draws.first_sample >= 0);
  return static_cast<std::uint64_t>(draws.first_sample + sample);
}

template <class T>
std::vector<T> per_sample(std::int64_t batch, const auto& value) {
  std::vector<T> values(sized(batch));
  for (std::int64_t b = 0; b < batch; ++b) values[sized(b)] = value(b);
  return values;
}

}  // namespace

void fill_noise(Purpose purpose, const Draws& draws, const ClipShape& shape, std::span<float> out) {
  // A sample owns 2^40 numbers whatever its shape, so samples of different sizes in one global batch never share any.
  constexpr int kElementBits = 40;
  REEL_CHECK(out.size() == shape.size() && shape.sample() <= std::size_t{1} << kElementBits);
  REEL_CHECK(number(draws, shape.batch) < std::uint64_t{1} << (64 - kElementBits));
  const Random random = stream(purpose, draws);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    random.fill_normal(out.subspan(shape.at(b, 0, 0), shape.sample()), number(draws, b) << kElementBits);
  }
}

std::vector<float> draw_uniform(Purpose purpose, const Draws& draws, std::int64_t batch) {
  const Random random = stream(purpose, draws);
  return per_sample<float>(batch, [&](std::int64_t b) { return random.uniform(number(draws, b)); });
}

std::vector<float> draw_normal(Purpose purpose, const Draws& draws, std::int64_t batch) {
  const Random random = stream(purpose, draws);
  return per_sample<float>(batch, [&](std::int64_t b) { return random.normal(number(draws, b)); });
}

std::vector<std::int64_t> draw_below(Purpose purpose, const Draws& draws, std::int64_t batch, std::int64_t limit) {
  const Random random = stream(purpose, draws);
  return per_sample<std::int64_t>(batch, [&](std::int64_t b) {
    return static_cast<std::int64_t>(random.below(number(draws, b), static_cast<std::uint64_t>(limit)));
  });
}

std::vector<std::uint8_t> draw_text_dropout(double share, const Draws& draws, std::int64_t batch) {
  const std::vector<float> uniform = draw_uniform(Purpose::kTextDropout, draws, batch);
  return per_sample<std::uint8_t>(batch, [&](std::int64_t b) { return uniform[sized(b)] < share; });
}

Noised mix(const ClipShape& shape, std::span<const float> x0, std::span<const float> noise, std::span<const Mix> mixes,
           std::int64_t conditioning_frames) {
  REEL_CHECK(x0.size() == shape.size() && noise.size() == shape.size());
  REEL_CHECK(mixes.size() == sized(shape.batch));
  Noised noised{
      Buffer<float>(shape.size()), Buffer<float>(shape.size()), {}, frame_times(shape, 1, conditioning_frames)};
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const Mix& m = mixes[sized(b)];
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const std::size_t begin = shape.at(b, c, 0), given = shape.at(b, c, conditioning_frames);
      const std::size_t end = shape.at(b, c, shape.frames);
      for (std::size_t i = begin; i < given; ++i) noised.x[i] = x0[i], noised.target[i] = 0;
      for (std::size_t i = given; i < end; ++i) {
        noised.x[i] = m.x_data * x0[i] + m.x_noise * noise[i];
        noised.target[i] = m.target_data * x0[i] + m.target_noise * noise[i];
      }
    }
    for (std::int64_t f = 0; f < shape.frames; ++f) noised.frame_times.push_back(f < conditioning_frames ? 0 : m.time);
  }
  return noised;
}

std::vector<float> frame_times(const ClipShape& shape, float time, std::int64_t conditioning_frames) {
  REEL_CHECK(conditioning_frames >= 0);
  if (conditioning_frames >= shape.frames) {
    throw Error(fmt::format("{} conditioning frames leave nothing to predict in clips of {} frames",
                            conditioning_frames, shape.frames),
                "give fewer frames, or use longer clips; with a video autoencoder these are latent frames");
  }
  std::vector<float> times(sized(shape.batch * shape.frames), time);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    std::fill_n(times.begin() + b * shape.frames, conditioning_frames, 0.0f);
  }
  return times;
}

std::int64_t counted(const ClipShape& shape, const Noised& noised) {
  REEL_CHECK(noised.frame_mask.size() == sized(shape.batch * shape.frames));
  const auto frames = std::count(noised.frame_mask.begin(), noised.frame_mask.end(), 1.0f);
  return frames * shape.channels * shape.height * shape.width;
}

}  // namespace reel::diffusion
