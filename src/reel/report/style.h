// The one style sheet of all pages (page.h); charts (figure.h) and clips (animation.h) use its classes.
#pragma once

#include <string_view>

namespace reel::report {

std::string_view style_sheet();

}  // namespace reel::report
