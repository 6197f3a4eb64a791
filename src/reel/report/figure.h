// What all charts share: the frame of a figure, axes, legends. Internal to this room.
//
// Places are shares of the plot, 0 to 1 from the left and from the bottom, written as percentages of the SVG. Axis
// labels lie outside, in the padding: a fixed number of pixels, while the plot takes what the page gives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reel/report/axis.h"
#include "reel/report/html.h"

namespace reel::report {

constexpr int kColors = 8;  // c0 to c7 in the style sheet

std::string percent(double share);  // "12.5%"; the share has to be finite

struct Padding {
  int top = 22, right = 10, bottom = 24, left = 10;
};

struct Key {  // of a legend
  std::string name;
  std::size_t color;  // counted modulo kColors
};

struct Figure {
  std::string title, note;
  std::vector<Key> keys;
  std::string legend;  // markup before the keys
  int height = 0;      // of the plot, in pixels
  Padding padding;
  std::string plot;  // SVG elements
};
Html render(const Figure& figure);

// Grid lines with their labels, and the room in pixels that labels of the y axis need.
std::string draw_x_axis(const Axis& axis, std::string_view name);
std::string draw_y_axis(const Axis& axis);
int label_width(const Axis& axis);

std::string color_class(std::size_t index);  // "c3"

}  // namespace reel::report
