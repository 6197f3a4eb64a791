// The shapes that drawn clips are made of.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace reel::data {

constexpr std::array<const char*, 5> kShapes = {"square", "disc", "triangle", "cross", "ring"};

// Signed distance in pixels from the edge of a shape of this radius around the origin, negative inside; y points down.
// Exact near the edges, which is all that anti-aliasing looks at.
inline float shape_distance(std::size_t shape, float x, float y, float radius) {
  const float ax = std::abs(x), ay = std::abs(y);
  switch (shape) {
    case 0:
      return std::max(ax, ay) - 0.86f * radius;
    case 1:
      return std::hypot(x, y) - radius;
    case 2: {  // equilateral, its tip up, moved down a little so that it looks centred and stays within the radius
      const float inner = 0.55f * radius, lowered = y - 0.1f * radius;
      return std::max(lowered - inner, 0.866f * ax - 0.5f * lowered - inner);
    }
    case 3: {
      const float arm = 0.36f * radius;
      return std::min(std::max(ax - radius, ay - arm), std::max(ax - arm, ay - radius));
    }
    default:
      return std::abs(std::hypot(x, y) - 0.74f * radius) - 0.26f * radius;
  }
}

// The distance along an axis whose ends are joined.
inline float wrapped(float offset, float length) { return offset - length * std::round(offset / length); }

}  // namespace reel::data
