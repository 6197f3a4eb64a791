// Small things done to text.
#pragma once

#include <string_view>

namespace reel {

// Without the blanks and tabs at both ends.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace reel
