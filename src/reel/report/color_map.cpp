#include "reel/report/color_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "reel/base/error.h"

namespace reel::report {

namespace {

// Linear sRGB of a colour in Oklab (B. Ottosson, "A perceptual color space for image processing", 2020), given by its
// lightness, chroma and hue.
std::array<double, 3> linear_rgb(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

int byte_of(double linear) {
  const double x = std::clamp(linear, 0.0, 1.0);
  const double encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<int>(std::lround(encoded * 255));
}

}  // namespace

std::string amount_color(double share) {
  REEL_CHECK(share >= 0 && share <= 1);
  // Lightness alone carries the order; the hue turns along with it so that neighbours differ in colour, too.
  const double lightness = 0.28 + 0.65 * share;
  const double hue = (295 - 190 * share) * std::numbers::pi / 180;
  double chroma = 0.15;
  std::array<double, 3> rgb = linear_rgb(lightness, chroma, hue);
  const auto outside = [](double x) { return x < 0 || x > 1; };
  while (chroma > 0 && std::any_of(rgb.begin(), rgb.end(), outside)) rgb = linear_rgb(lightness, chroma -= 0.005, hue);
  return fmt::format("#{:02x}{:02x}{:02x}", byte_of(rgb[0]), byte_of(rgb[1]), byte_of(rgb[2]));
}

}  // namespace reel::report
