#include "reel/data/storyboard_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "reel/base/sized.h"
#include "reel/data/draws.h"
#include "reel/data/icons.h"
#include "reel/data/shapes.h"

namespace reel::data {

namespace {

constexpr float kDeviation = 0.7f;
constexpr std::int64_t kShapesOfAPicture = 4;
constexpr std::int64_t kCoarse = 4;  // cells
// Where in the stream of random numbers the texture starts; the composition takes a few hundred from the beginning.
constexpr std::uint64_t kFirstColor = std::uint64_t{1} << 32, kFirstGrain = std::uint64_t{1} << 33;

using Color = std::array<float, 3>;

float wave(float turns) { return std::cos(2 * std::numbers::pi_v<float> * turns); }

Color color_of(float hue, float light) {
  Color color;
  for (std::size_t c = 0; c < 3; ++c) color[c] = light + 0.7f * wave(hue - static_cast<float>(c) / 3);
  return color;
}

// Two colours that alternate; whole numbers of waves across and down, so that the ends of the picture meet.
struct Pattern {
  enum Kind { kGradient, kStripes, kCheckers, kDots, kRings, kKinds };
  std::int64_t kind;
  float across, down;  // waves
  float x, y;          // where they start, as shares of the picture
  Color dark, bright;
};

Pattern draw_pattern(Draws& draws, std::int64_t kind, float light, const Picture& picture) {
  const float tall = static_cast<float>(picture.height), wide = static_cast<float>(picture.width);
  Pattern pattern{.kind = kind, .across = 1, .down = 1};
  if (kind != Pattern::kGradient) {
    const float length = std::min(tall, wide) * draws.between(0.3f, 0.6f);
    pattern.across = std::max(1.0f, std::round(wide / length));
    pattern.down = std::max(1.0f, std::round(tall / length));
  }
  if (kind == Pattern::kGradient || kind == Pattern::kStripes) {
    constexpr std::array<std::array<float, 2>, 4> kDirections = {{{0, 1}, {1, 0}, {1, 1}, {1, -1}}};
    const auto [right, down] = kDirections[sized(draws.whole(0, 3))];
    pattern.across *= right;
    pattern.down *= down;
  }
  pattern.x = draws.between(0, 1);
  pattern.y = draws.between(0, 1);
  const float hue = draws.between(0, 1);
  pattern.dark = color_of(hue, light - 0.2f);
  pattern.bright = color_of(hue + draws.between(0.1f, 0.3f), light + 0.2f);
  return pattern;
}

// How bright the pattern is at a pixel, 0 to 1, edges about a pixel soft.
float brightness(const Pattern& pattern, float x, float y, const Picture& picture) {
  const float tall = static_cast<float>(picture.height), wide = static_cast<float>(picture.width);
  const float u = pattern.across * (x / wide - pattern.x), v = pattern.down * (y / tall - pattern.y);
  const auto edge = [](float height) { return std::clamp(0.5f + 1.5f * height, 0.0f, 1.0f); };
  switch (pattern.kind) {
    case Pattern::kGradient:
      return 0.5f + 0.5f * wave(u + v);
    case Pattern::kStripes:
      return edge(wave(u + v));
    case Pattern::kCheckers:
      return edge(2 * wave(u) * wave(v));
    case Pattern::kDots:
      return edge(wave(u) + wave(v) - 0.5f);
    default:
      return edge(wave(std::hypot(wrapped(u, pattern.across), wrapped(v, pattern.down))));
  }
}

struct Shape {
  std::size_t kind;
  float x, y, radius;  // pixels
  Pattern pattern;
};

// Plain or striped, brighter than the background: more than one busy thing at a time is hard to recognise.
Shape draw_shape(Draws& draws, const Picture& picture) {
  const float tall = static_cast<float>(picture.height), wide = static_cast<float>(picture.width);
  return {.kind = sized(draws.whole(0, static_cast<std::int64_t>(kShapes.size()) - 1)),
          .x = draws.between(0, wide),
          .y = draws.between(0, tall),
          .radius = std::min(tall, wide) * draws.between(0.2f, 0.4f),
          .pattern = draw_pattern(draws, draws.whole(Pattern::kGradient, Pattern::kStripes), 0.5f, picture)};
}

void paint(const Pattern& pattern, float covered, float x, float y, const Picture& picture, Color& color) {
  const float bright = brightness(pattern, x, y, picture);
  for (std::size_t c = 0; c < 3; ++c) {
    const float paint = pattern.dark[c] + bright * (pattern.bright[c] - pattern.dark[c]);
    color[c] += covered * (paint - color[c]);
  }
}

void draw_shapes(Draws draws, Picture& picture) {
  const Pattern background = draw_pattern(draws, draws.whole(Pattern::kGradient, Pattern::kKinds - 1), -0.5f, picture);
  std::vector<Shape> shapes;
  for (std::int64_t i = 0; i < kShapesOfAPicture; ++i) shapes.push_back(draw_shape(draws, picture));
  const float tall = static_cast<float>(picture.height), wide = static_cast<float>(picture.width);
  const std::size_t pixels = picture.values.size() / 3;
  float* out = picture.values.data();
  for (std::int64_t row = 0; row < picture.height; ++row) {
    for (std::int64_t column = 0; column < picture.width; ++column, ++out) {
      const float y = static_cast<float>(row) + 0.5f, x = static_cast<float>(column) + 0.5f;
      Color color{};
      paint(background, 1, x, y, picture, color);
      for (const Shape& shape : shapes) {
        const float distance =
            shape_distance(shape.kind, wrapped(x - shape.x, wide), wrapped(y - shape.y, tall), shape.radius);
        if (distance < 0.5f) paint(shape.pattern, std::min(0.5f - distance, 1.0f), x, y, picture, color);
      }
      for (std::size_t c = 0; c < 3; ++c) out[c * pixels] = color[c];
    }
  }
}

// A colour in any direction from grey, each as often.
Color draw_direction(Draws& draws) {
  const float up = draws.between(-1, 1), turn = draws.between(0, 1), out = std::sqrt(1 - up * up);
  return {out * wave(turn), out * wave(turn - 0.25f), up};
}

void draw_icons(Draws draws, Picture& picture) {
  constexpr std::int64_t kSide = kIconSide;
  const std::size_t pixels = picture.values.size() / 3;
  for (std::int64_t top = 0; top < picture.height; top += kSide) {
    for (std::int64_t left = 0; left < picture.width; left += kSide) {
      const auto icon = sized(draws.whole(0, kIcons - 1));
      const bool mirrored = draws.whole(0, 1) == 1;
      const Color color = draw_direction(draws);
      for (std::int64_t y = top; y < std::min(top + kSide, picture.height); ++y) {
        for (std::int64_t x = left; x < std::min(left + kSide, picture.width); ++x) {
          const std::int64_t column = mirrored ? kSide - 1 - (x - left) : x - left;
          const bool set = icon_pixel(icon, sized(y - top), sized(column));
          float* out = picture.values.data() + y * picture.width + x;
          for (std::size_t c = 0; c < 3; ++c) out[c * pixels] = set ? color[c] : -color[c];
        }
      }
    }
  }
}

// Mean 0 in every channel and variance 1 over all of them.
void standardise(Picture& picture) {
  const std::size_t pixels = picture.values.size() / 3;
  double squares = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const std::span<float> channel = std::span(picture.values).subspan(c * pixels, pixels);
    double sum = 0;
    for (const float value : channel) sum += value;
    const float mean = static_cast<float>(sum / static_cast<double>(pixels));
    for (float& value : channel) {
      value -= mean;
      squares += static_cast<double>(value) * value;
    }
  }
  // The least variance is for tiny pictures, which may be of one colour.
  const double variance = std::max(squares / static_cast<double>(picture.values.size()), 1e-6);
  for (float& value : picture.values) value *= static_cast<float>(1 / std::sqrt(variance));
}

void add_texture(const Random& random, const PictureStyle& style, Picture& picture) {
  const auto amplitude = [](double share) { return kDeviation * static_cast<float>(std::sqrt(share)); };
  const float drawn = amplitude(1 - style.texture), grain = amplitude(style.texture * (1 - style.coarse)),
              coarse = amplitude(style.texture * style.coarse);
  const std::int64_t block = kCoarse * style.cell;  // pixels
  const std::int64_t rows = (picture.height + block - 1) / block, columns = (picture.width + block - 1) / block;
  std::vector<float> colors(sized(3 * rows * columns)), grains(picture.values.size());
  random.fill_normal(colors, kFirstColor);
  random.fill_normal(grains, kFirstGrain);
  std::size_t i = 0;
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < picture.height; ++y) {
      for (std::int64_t x = 0; x < picture.width; ++x, ++i) {
        const float color = colors[sized((c * rows + y / block) * columns + x / block)];
        picture.values[i] = drawn * picture.values[i] + grain * grains[i] + coarse * color;
      }
    }
  }
}

}  // namespace

void draw_picture(const Random& random, const PictureStyle& style, Picture& picture) {
  if (style.drawn == "icons") {
    draw_icons(Draws(random), picture);
  } else {
    draw_shapes(Draws(random), picture);
  }
  standardise(picture);
  add_texture(random, style, picture);
}

}  // namespace reel::data
