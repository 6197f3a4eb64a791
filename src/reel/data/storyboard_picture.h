// Drawn pictures that a person recognises, under a random texture that tells every cell from all others.
//
//   drawn = "shapes"   colourful patterns with some large shapes, continued over the borders: rolled, there is no seam
//   drawn = "icons"    small drawings (icons.h) side by side, each in a colour and its opposite. A large shape is seen,
//                      and can be smoothed out of its neighbourhood, through much noise; these cannot. Colours have no
//                      preferred direction, so cells are told apart by scalar products without any texture
//
// Values have mean 0 and deviation 0.7, whatever the style. `texture` is the share of their variance that is random:
// at 1 nothing is drawn and every value is normal, at 0 cells inside a shape or along a stripe may be alike. `coarse`
// is the share of the random variance that is one colour for 4 x 4 cells; the rest is independent from pixel to pixel.
// By default the rest is 0.24 of the variance: as much in the 48 values of a 4 x 4 cell as in 2 x 2 pixels of pure
// noise, from which small models were seen to learn to look things up, and a person still sees the shapes.
// Normal values are not clipped: some lie outside of [-1, 1], and whoever shows them clamps (image.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::data {

struct PictureStyle {
  std::int64_t cell = 4;  // pixels
  double texture = 0.3, coarse = 0.2;
  std::string drawn = "shapes";
};

struct Picture {
  std::int64_t height, width;
  std::vector<float> values;  // [3][height][width]

  Picture(std::int64_t rows, std::int64_t columns) : height(rows), width(columns), values(sized(3 * rows * columns)) {}
};

// Fills the picture, from `random` alone.
void draw_picture(const Random& random, const PictureStyle& style, Picture& picture);

}  // namespace reel::data
