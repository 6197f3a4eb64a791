#include "reel/files/utf8.h"

namespace reel {

std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    std::size_t length = 0;
    if (lead < 0x80) {
      length = 1;
    } else if (lead >= 0xc2 && lead <= 0xdf && within(i + 1, 0x80, 0xbf)) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef && within(i + 2, 0x80, 0xbf) &&
               within(i + 1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf)) {
      length = 3;
    } else if (lead >= 0xf0 && lead <= 0xf4 && within(i + 2, 0x80, 0xbf) && within(i + 3, 0x80, 0xbf) &&
               within(i + 1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf)) {
      length = 4;
    } else {
      return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace reel
