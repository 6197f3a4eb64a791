// Colours for amounts: equal steps of the value look equally far apart, on light and on dark pages, and in grey.
#pragma once

#include <string>

namespace reel::report {

// From a dark violet at 0 over teal to a light yellow at 1, as "#rrggbb".
std::string amount_color(double share);

}  // namespace reel::report
