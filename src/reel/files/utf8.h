// Is this text UTF-8? Files come from everywhere; what is not UTF-8 is refused where it is read, with its place.
#pragma once

#include <cstddef>
#include <string_view>

namespace reel {

// The first byte that does not belong to a well-formed character (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF), or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace reel
