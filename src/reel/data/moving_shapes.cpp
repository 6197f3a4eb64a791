#include "reel/data/moving_shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/data/shapes.h"

namespace reel::data {

namespace {

constexpr std::uint64_t kShapesPurpose = 0x736861706573;  // sets these random numbers apart from those of others

struct NamedColor {
  const char* name;
  std::array<float, 3> rgb;  // 0 to 1
};

constexpr std::array<const char*, 6> kMotions = {"right", "left", "down", "up", "diagonal", "around"};
constexpr std::array<NamedColor, 6> kColors = {{{"red", {0.94f, 0.20f, 0.22f}},
                                                {"orange", {1.00f, 0.58f, 0.12f}},
                                                {"yellow", {0.99f, 0.88f, 0.22f}},
                                                {"green", {0.22f, 0.80f, 0.36f}},
                                                {"blue", {0.22f, 0.52f, 1.00f}},
                                                {"purple", {0.74f, 0.36f, 0.95f}}}};
constexpr std::array<std::array<float, 3>, 4> kBackgrounds = {
    {{0.09f, 0.10f, 0.14f}, {0.06f, 0.15f, 0.18f}, {0.15f, 0.08f, 0.18f}, {0.16f, 0.11f, 0.08f}}};

struct Scene {
  std::size_t shape, motion, color, background;
  float phase, across;  // where on its way the shape starts, where it is beside it; both in [0, 1)
};

Scene draw_scene(std::uint64_t seed, std::int64_t clip) {
  const Random random(seed ^ kShapesPurpose, static_cast<std::uint64_t>(clip));
  return {.shape = random.below(0, kShapes.size()),
          .motion = random.below(1, kMotions.size()),
          .color = random.below(2, kColors.size()),
          .background = random.below(3, kBackgrounds.size()),
          .phase = random.uniform(16),  // of block 4: the blocks before are used up
          .across = random.uniform(17)};
}

// The centre of the shape in pixels when the part `time` of the turn is done, 0 to 1.
std::array<float, 2> centre(const Scene& scene, float time, float width, float height, float radius) {
  const float forth = scene.phase + time, back = scene.phase - time;
  const float reach_x = width / 2 - radius, reach_y = height / 2 - radius;  // from the middle, the shape whole in sight
  const float x = radius + scene.across * 2 * reach_x, y = radius + scene.across * 2 * reach_y;
  const float angle = 2 * std::numbers::pi_v<float> * forth;
  switch (scene.motion) {
    case 0:
      return {forth * width, y};
    case 1:
      return {back * width, y};
    case 2:
      return {x, forth * height};
    case 3:
      return {x, back * height};
    case 4: {  // to and fro between two corners
      const float side = scene.across < 0.5f ? -1.0f : 1.0f;
      return {width / 2 + side * reach_x * std::cos(angle), height / 2 + reach_y * std::cos(angle)};
    }
    default:  // clockwise, touching the border
      return {width / 2 + reach_x * std::cos(angle), height / 2 + reach_y * std::sin(angle)};
  }
}

}  // namespace

MovingShapes::MovingShapes(const DataConfig& config, const Format& wanted)
    : Source(wanted, true, {}), seed_(static_cast<std::uint64_t>(config.seed)), validation_(config.validation) {
  if (wanted.channels != 3 || wanted.height < 8 || wanted.width < 8) {
    throw Error(
        fmt::format("moving-shapes are pixels: 3 channels and at least 8 x 8, the model wants {} channels, {} x {}",
                    wanted.channels, wanted.height, wanted.width),
        "change the model, or take data.source = \"latents\"");
  }
}

std::int64_t MovingShapes::size(Split split) const { return split == Split::kTraining ? kEndless : validation_; }

std::vector<std::string> MovingShapes::labels() const {
  std::vector<std::string> names;
  for (const char* shape : kShapes) {
    for (const char* motion : kMotions) names.push_back(fmt::format("{} {}", shape, motion));
  }
  return names;
}

void MovingShapes::read_clip(Split split, std::int64_t index, Clip& out) {
  const Scene scene = draw_scene(seed_, drawn_clip(split, index, validation_));
  out.label = static_cast<int>(scene.shape * kMotions.size() + scene.motion);
  const std::string what = fmt::format("{} {}", kShapes[scene.shape], kMotions[scene.motion]);
  // Some captions leave the colour open, so that a model knows what to do with a label alone.
  embed(index % 3 == 2 ? what : fmt::format("{} {}", kColors[scene.color].name, what), out);

  const std::int64_t frames = format().frames, height = format().height, width = format().width;
  const float tall = static_cast<float>(height), wide = static_cast<float>(width);
  const float radius = 0.26f * std::min(tall, wide);
  const auto& color = kColors[scene.color].rgb;
  const auto& background = kBackgrounds[scene.background];
  const std::int64_t channel = frames * height * width;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    const float time = static_cast<float>(frame) / static_cast<float>(frames);
    const auto [x0, y0] = centre(scene, time, wide, tall, radius);
    for (std::int64_t y = 0; y < height; ++y) {
      const float dy = wrapped(static_cast<float>(y) + 0.5f - y0, tall);
      const float light = 1.6f - 0.9f * (static_cast<float>(y) + 0.5f) / tall;  // a sky: brighter above
      float* row = out.values.data() + (frame * height + y) * width;
      for (std::int64_t x = 0; x < width; ++x) {
        const float dx = wrapped(static_cast<float>(x) + 0.5f - x0, wide);
        const float covered = std::clamp(0.5f - shape_distance(scene.shape, dx, dy, radius), 0.0f, 1.0f);
        for (std::size_t c = 0; c < 3; ++c) {
          const float value = covered * color[c] + (1 - covered) * light * background[c];
          row[static_cast<std::int64_t>(c) * channel + x] = 2 * value - 1;
        }
      }
    }
  }
}

}  // namespace reel::data
